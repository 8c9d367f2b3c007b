"""Weights that FSDP spreads over ranks: how far they are spread, and when they are fetched."""

from __future__ import annotations

from slowstep.factors.entries import needs_object, one_of, only, section, switched
from slowstep.factors.factor import EXCHANGE, Factor, Meaning

FORWARD = frozenset({"forward"}) | EXCHANGE


NONE_SPREAD = "it needs weights that fully_shard spreads over ranks"

fsdp1 = needs_object(
    ("FSDP1",),
    "a run whose weights FullyShardedDataParallel spreads over ranks",
    "it needs a FullyShardedDataParallel, and none is made",
)
fsdp2 = needs_object(("FSDP2",), "a run whose weights fully_shard spreads over ranks", NONE_SPREAD)
either = needs_object(("FSDP1", "FSDP2"), "a run whose weights FSDP spreads over ranks", NONE_SPREAD)


FSDP = (
    Factor(
        name="reshard_after_forward",
        title="Weights between forward and backward",
        hypothesis="Weights that are spread over ranks are gathered anew for the backward pass.",
        cause=switched("Keeping whole weights after the forward pass", "Gathering weights anew for the backward pass"),
        meaning=Meaning.EXACT,
        changes="nothing in training; whole weights stay in memory until the backward pass",
        **section("fsdp.reshard_after_forward", default=True),
        touches=frozenset({"forward"}) | EXCHANGE,
        examples=(False,),
        requires=fsdp2,
    ),
    Factor(
        name="sharding_strategy",
        title="What is spread over ranks",
        hypothesis="Weights are spread over ranks, and gathered in both passes, where memory does not require it.",
        cause="Spreading more over ranks than memory requires",
        meaning=Meaning.EXACT,
        changes="nothing in training but the order of summation; `SHARD_GRAD_OP` keeps whole weights until the "
        "backward pass, and `NO_SHARD` always",
        **section("fsdp.sharding_strategy", default="FULL_SHARD", fact="fsdp.sharding_strategy"),
        touches=FORWARD | {"optimizer"},
        examples=("SHARD_GRAD_OP", "NO_SHARD"),
        requires=fsdp1,
        accepts=one_of("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"),
    ),
    Factor(
        name="fsdp_forward_prefetch",
        title="Weights fetched ahead in the forward pass",
        hypothesis="The forward pass waits for each module's weights, which could be fetched while the one before it "
        "computes.",
        cause="Fetching each module's weights when it is called",
        meaning=Meaning.EXACT,
        changes="nothing in training; one more module's weights are whole at a time",
        **section("fsdp.forward_prefetch", default=False, fact="fsdp.forward_prefetch"),
        touches=FORWARD,
        examples=(True,),
        requires=either,
    ),
    Factor(
        name="fsdp_backward_prefetch",
        title="Weights fetched ahead in the backward pass",
        hypothesis="The backward pass waits for weights that are fetched too late.",
        cause="Fetching weights late in the backward pass",
        meaning=Meaning.EXACT,
        changes="nothing in training; weights that are fetched ahead take memory",
        **section("fsdp.backward_prefetch", default="BACKWARD_PRE", fact="fsdp.backward_prefetch"),
        touches=EXCHANGE,
        examples=("BACKWARD_PRE",),
        proposes=only("BACKWARD_PRE"),
        requires=fsdp1,
        accepts=one_of("BACKWARD_PRE", "BACKWARD_POST", "none"),
    ),
    Factor(
        name="limit_all_gathers",
        title="Limit of what is gathered at once",
        hypothesis="The host waits, so that no more than two modules' weights are gathered at once.",
        cause=switched("Gathering without a limit", "Waiting before more weights are gathered"),
        meaning=Meaning.EXACT,
        changes="nothing in training; without the limit more weights can be in memory at once",
        **section("fsdp.limit_all_gathers", default=True, fact="fsdp.limit_all_gathers"),
        touches=FORWARD,
        examples=(False,),
        requires=fsdp1,
    ),
)
