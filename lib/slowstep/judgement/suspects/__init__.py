"""Suspects: phases with time that a healthy run would not spend, whether or not a factor of the catalogue acts on it.

Waiting for data, copying, logging, saving and evaluating train nothing, so their time is always suspected. Other kinds
of time may be a hook, a sleep or a slow operator, but also just the price of launching many small operations.
They are suspected only with evidence of what they consist of: lines of code, operators, or long steps.

- **Time between the phases** counts where it is spent at places in the code that each take a good part of it, lines or
  functions that train nothing, or in steps that are far longer than the others. Python's ordinary way from one phase to
  the next is spread over many lines.
- **An optimizer's step** is training, whoever wrote its rule. Hooks of the program's own that run within it are not.
  They count where their lines, or such a hook with all that it runs, take a good part of the time.
- **A pass** is compared with the other pass by their FLOPs, but only where the other pass reaches a good part of the
  device's rate: FLOPs say nothing about a step that is bound by launching. Its excess counts as far as operators beside
  the products, or stretches without any operator, account for it. Without FLOPs, what computes nothing counts:
  stretches without any operator, loops of the user's own that call operators one by one, and operators that only copy,
  fill or arrange memory, beyond what every model has of them. So does what one operator spares: attention, or a
  product of matrices, that is written out, and so does what is computed again from the same values, or what nothing
  uses.

A change explains such time if the time is gone in the change's own blocks. Time that no supported change takes away
stays "unexplained"; it is never blamed on a factor that happens to be listed.
"""

from slowstep.judgement.suspects.find import perhaps_suspects, suspects
from slowstep.judgement.suspects.in_passes import LOOP
from slowstep.judgement.suspects.lost import lost
from slowstep.judgement.suspects.residual import LITTLE, Residual, Residuals, eased, gone, mostly_stays, unexplained
from slowstep.judgement.suspects.suspect import PASSES, TRAINS_NOTHING, Suspect, function_at, place_at

__all__ = [
    "LITTLE",
    "LOOP",
    "PASSES",
    "TRAINS_NOTHING",
    "Residual",
    "Residuals",
    "Suspect",
    "eased",
    "function_at",
    "gone",
    "lost",
    "mostly_stays",
    "perhaps_suspects",
    "place_at",
    "suspects",
    "unexplained",
]
