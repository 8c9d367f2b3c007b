"""Rows whose samples are of unlike size, as names and columns say that nobody reads: samples are no equal work then."""

from __future__ import annotations

import pytest

from slowstep.audit import Audit, FindingKind, Judgement, audit
from slowstep.audit.terminal_lines import claim_lines
from slowstep.settings.load import validate


def report(table: str, *claims: dict) -> Audit:
    return audit(validate({"name": "own", "reported": {"table": table, "claims": list(claims)}}, "own"))


def judged(header: str, a: str, b: str, quantity: str = "samples_per_second") -> Audit:
    """A claim on two rows that holds by their figures; the rows are named by the first cell."""
    claim = {"text": "it is faster", "baseline": a.split(",")[0], "treatment": b.split(",")[0]}
    return report(f"{header}\n{a}\n{b}\n", {**claim, "speed_up": "1.87", "quantity": quantity})


UNLIKE = {
    "lengths in names": ("run,samples/s", "seq 1024,0.69", "seq 512,1.29"),
    "a length in one name": ("run,samples/s", "baseline,0.69", "+ seq512,1.29"),
    "contexts": ("run,img/s", "4k ctx,0.69", "llama ctx2k,1.29"),
    "a length in a note": ("run,samples/s,notes", "base,0.69,at max_len=1024", "short,1.29,at max_len=512"),
    "a column `seq`": ("run,bs,seq,samples/s", "base,4,1024,0.69", "short,4,512,1.29"),
    "a column `T`": ("run,B,T,samples/s", "base,4,1024,0.69", "short,4,512,1.29"),
    "resolutions": ("run,resolution,img/s", "base,224,0.69", "fast,128,1.29"),
    "sides": ("run,image size,img/s", "base,224x224,0.69", "fast,160x160,1.29"),
    "pixels in names": ("run,img/s", "ResNet-50 224px,0.69", "ResNet-50 @128,1.29"),
    "names of timm": ("run,img/s", "vit_base_patch16_384,0.69", "vit_base_patch16_224,1.29"),
    "frames": ("run,samples/s", "16 frames,0.69", "8 frames,1.29"),
    "steps": ("run,steps/s", "seq 1024,0.69", "seq 512,1.29"),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_samples_of_unlike_size_decide_nothing(name: str) -> None:
    """Half the length at twice the samples a second is no gain, whoever says the length, and wherever."""
    quantity = "steps_per_second" if name == "steps" else "samples_per_second"
    found = judged(*UNLIKE[name], quantity)
    (claim,) = found.claims
    asked = " a second do " in claim.questions[0]

    assert (Judgement.UNDECIDED, True, True) == (claim.judgement, "may be other work" in claim.reason, asked)
    assert FindingKind.UNIT not in {f.kind for f in claim.findings}


ALIKE = {
    "one length in all names": ("run,samples/s", "eager seq 1024,0.69", "flash seq 1024,1.29"),
    "4k and 4096": ("run,samples/s", "eager ctx 4k,0.69", "flash ctx 4096,1.29"),
    "a column that says the same": ("run,resolution,img/s", "base,224,0.69", "fast,224x224,1.29"),
    "other words": ("run,img/s", "resnet50,0.69", "resnet101 seq2seq 8x80GB,1.29"),
    "runs that are numbered": ("run,seq,samples/s", "base,1,0.69", "fast,2,1.29"),
    "lengths that were measured": ("run,mean length,samples/s", "base,812.3,0.69", "fast,809.8,1.29"),
}


@pytest.mark.parametrize("name", ALIKE)
def test_what_is_no_other_sample_leaves_claims_as_they_are(name: str) -> None:
    assert Judgement.HOLDS is judged(*ALIKE[name]).claims[0].judgement


def test_tokens_are_equal_work_at_any_length() -> None:
    """They decide a claim on samples, too, where they are given beside them."""
    tokens = judged("run,tokens/s", "seq 1024,690", "seq 512,1290", "tokens_per_second")
    both = judged("run,samples/s,tokens/s", "seq 1024,0.69,707", "seq 512,1.29,660")

    assert Judgement.HOLDS is tokens.claims[0].judgement
    assert (Judgement.CONTRADICTED, "tokens/s") == (both.claims[0].judgement, both.claims[0].unit)


def test_a_comparison_tells_that_samples_may_be_other_work() -> None:
    """Without a claim, too, each difference once; and no unit is called the fairest."""
    (line, *_) = claim_lines(report("run,resolution,img/s\nbase,224,812\nfast,128,2480\n"))
    ranked = report("run,img/s,steps/s\nbase 224px,812,4.0\nfast 128px,2480,3.0\n").findings

    assert (1, True) == (line.count("resolution (224, 128)"), "may be other work" in line)
    assert [] == [f for f in ranked if f.kind is FindingKind.RANKING]


@pytest.mark.parametrize(
    ("header", "a", "b"),
    [
        ("run,samples/s", "bs 128 seq 512,0.69", "bs 256 seq 512,1.29"),
        ("run,samples/s", "gbs=256 seq=2048,0.69", "gbs=512 seq=2048,1.29"),
        ("run,samples/s", "RTX 3090 seq 512,0.69", "RTX 4090 seq 512,1.29"),
        ("run,samples/s,notes", "eager,0.69,", "flash,1.29,would be OOM at seq 4096 without it"),
    ],
)
def test_a_number_beside_a_length_and_a_remark_on_one_row_are_no_size(header: str, a: str, b: str) -> None:
    """All of these rows train on samples of one size, as far as they say any."""
    assert judged(header, a, b).claims[0].judgement is Judgement.HOLDS
