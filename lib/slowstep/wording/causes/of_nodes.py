"""The cause that nodes are slow, and all others wait for them."""

from __future__ import annotations

from collections.abc import Sequence

from slowstep.judgement.explaining import ACT_ON_ALL_PHASES
from slowstep.judgement.nodes import NODE, SlowNodes
from slowstep.judgement.suspects import Suspect, eased
from slowstep.judgement.verdict import Verdict
from slowstep.text.numbers import percent, unsigned
from slowstep.wording.causes.cause import Cause
from slowstep.wording.lost import takes
from slowstep.wording.words import effect


def node_cause(slow: SlowNodes, there: Sequence[Suspect]) -> Cause:
    """Return the cause that all nodes wait for slow ones, with what their ranks are seen to take longer."""
    numbers = [str(number) for number in sorted(slow.numbers)]
    are = f"Node {numbers[0]} is" if len(numbers) == 1 else f"Nodes {', '.join(numbers[:-1])} and {numbers[-1]} are"
    faster = f"{unsigned(effect(slow.gain))} faster on node {slow.against} than on node {slow.numbers[0]}"
    text = (
        f"{are} slow: with the processes of one node alone, the same training is {faster}, and where all train "
        "together each step waits for the slowest. That is the most that can be had from nodes that are all alike."
    )
    seen = [f"{takes(s)}; {s.why}." for s in there]
    text = " ".join([text, *seen])
    gain = unsigned(percent(slow.gain.ratio))
    headline = f"{are} slow; with nodes that are all alike the run would be at most about {gain} faster."
    return Cause(
        factor=NODE,
        phase=None,
        ratio=slow.gain.ratio,
        text=text,
        effect=slow.gain,
        headline=headline,
        still_open=text,
    )


def lies_there(suspect: Suspect, slow: SlowNodes, changes: Sequence[Verdict]) -> bool:
    """Return whether a rank is slow since its node is: the node explains as much, and no change takes a part of it."""
    explains = suspect.node in slow.numbers and suspect.ratio <= slow.gain.high
    return explains and not any(eased(suspect, v.leaves) for v in changes if v.factor not in ACT_ON_ALL_PHASES)
