"""The causes that the whole investigation points at, in one ranking and in words."""

from slowstep.wording.causes.cause import Cause
from slowstep.wording.causes.find import causes

__all__ = ["Cause", "causes"]
