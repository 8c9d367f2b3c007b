"""Facts about what is really in effect in a trial, read from the live objects after a few steps, not from the settings.

The expectations of the catalogue's levels are compared with these facts.
"""

from slowstep.workloads.observed.loader import data_facts
from slowstep.workloads.observed.model import model_facts, sizes
from slowstep.workloads.observed.trainer import trainer_facts

__all__ = ["data_facts", "model_facts", "sizes", "trainer_facts"]
