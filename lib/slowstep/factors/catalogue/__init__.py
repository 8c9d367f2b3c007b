"""Every factor that the kit can test, with a module for each kind. A new factor is a new entry there.

docs/adding-a-factor.md shows how to add one.
"""

from slowstep.factors.catalogue import data, length, memory, model, numerics, overheads
from slowstep.factors.factor import Factor

ROOMS = {
    "data loading": data.FACTORS,
    "memory for speed": memory.FACTORS,
    "numerics": numerics.FACTORS,
    "model": model.FACTORS,
    "overheads": overheads.FACTORS,
    "length": length.FACTORS,
}

CATALOGUE: dict[str, Factor] = {f.name: f for room in ROOMS.values() for f in room}
