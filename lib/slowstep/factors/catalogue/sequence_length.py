"""Length of the sequences: how much of an example is seen."""

from __future__ import annotations

from slowstep.factors.entries import section, whole
from slowstep.factors.factor import ALL_PHASES, Factor, Meaning

FACTORS = (
    Factor(
        name="max_length",
        title="Sequence length",
        hypothesis="Long sequences are slow beyond their tokens: attention grows with the square of the length.",
        cause="Computing examples at this length",
        meaning=Meaning.SEMANTICS,
        changes="longer examples are cut off, so the model never sees their ends",
        **section("dataset.max_length"),
        touches=ALL_PHASES,
        examples=(32,),
        bound="attention",
        accepts=whole(2),
    ),
)
