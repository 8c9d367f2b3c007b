"""The work in batches of tokens that have no mask: samples are judged wherever some of the tokens may be padding."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from slowstep.judgement.throughput import unit, works
from slowstep.records import Block
from slowstep_probe.changing.padding import columns_varied, trimmed
from slowstep_probe.probe.batch_work import count, count_inputs, total

PAD, VOCABULARY = 0, 1000


def texts(lengths: Sequence[int], padded_to: int = 0, left: bool = False) -> dict[str, torch.Tensor]:
    """Return a batch of texts of these lengths, padded to the longest of them or to a length, without a mask."""
    generator = torch.Generator().manual_seed(sum(lengths))
    ids = torch.full((len(lengths), padded_to or max(lengths)), PAD)
    for row, length in zip(ids, lengths, strict=True):
        words = torch.randint(1, VOCABULARY, (length,), generator=generator)
        (row[-length:] if left else row[:length]).copy_(words)
    return {"input_ids": ids}


def block(*batches: dict[str, torch.Tensor]) -> Block:
    """Return a block of one step a batch, whose seconds are the positions that it computes."""
    seconds = [float(one["input_ids"].numel()) for one in batches]
    phases = {"forward": sum(seconds)}
    work = total([count(one) for one in batches])
    return Block(steps=len(batches), seconds=sum(seconds), phases=phases, step_seconds=seconds, work=work)


def gain(before: Block, after: Block) -> float:
    """Return how many times as fast the second block is, in the judged unit."""
    done = works([before], [after])
    return done[1][0] / after.seconds / (done[0][0] / before.seconds)


@pytest.mark.parametrize("left", [False, True])
def test_trimming_is_not_judged_by_the_tokens_that_it_takes_away(left: bool) -> None:
    """Texts of 128 tokens that are padded to 512 take four times as long as without that."""
    padded = texts([128] * 4, padded_to=512, left=left)

    assert 4.0 == gain(block(padded), block(trimmed(padded, columns_varied)))


def test_larger_batches_gain_nothing_by_more_padding() -> None:
    """Each batch is padded to its longest text, so a larger one holds more positions for the same texts."""
    lengths = [20, 32, 25, 90, 28, 24, 60, 22]
    one_by_one, together = [texts(lengths[:4]), texts(lengths[4:])], texts(lengths)

    assert gain(block(*one_by_one), block(together)) < 1


def test_full_rows_are_judged_by_their_tokens() -> None:
    """Blocks of text that are twice as long hold twice the work, though they are half as many."""
    short, long = block(texts([256] * 8)), block(texts([512] * 4))

    assert (1.0, "useful tokens/s") == (gain(short, long), unit([short, long]))


def test_a_few_rows_may_end_in_one_value_by_chance() -> None:
    """Two lines in a hundred that end in blanks are no padding."""
    batches = [texts([64] * 50) for _ in range(2)]
    for one in batches:
        one["input_ids"][7, -4:] = 5

    assert 100 * 64 == total([count(one) for one in batches]).useful_tokens


@pytest.mark.parametrize("ids", [torch.ones(4, 1), torch.ones(4, 2), torch.arange(90), torch.arange(90)[None]])
def test_single_tokens_and_packed_rows_are_useful(ids: torch.Tensor) -> None:
    """A row of one or two tokens can't tell, and one in which texts are packed ends with the last of them."""
    assert ids.numel() == total([count({"input_ids": ids.long()})]).useful_tokens


def test_tokens_that_a_model_is_called_with_may_be_padded() -> None:
    padded = texts([20, 90, 24, 28])["input_ids"]

    assert None is total([count_inputs((padded,), {})]).useful_tokens
    assert padded.numel() == total([count_inputs((padded,), {})]).padded_tokens


def test_tokens_on_a_device_are_not_read_while_they_are_trained_on() -> None:
    """A meta tensor can't be read at all, so counting it raises no error only if nothing is read."""
    found = count({"input_ids": torch.ones(2, 90, dtype=torch.int64, device="meta")})

    assert found.padded_tokens == 180
    with pytest.raises((RuntimeError, NotImplementedError)):
        total([found])


def test_a_batch_that_is_written_to_later_was_counted_as_it_was() -> None:
    """Programs fill one buffer again and again."""
    ids = texts([20, 90, 24, 28])["input_ids"]
    found = count({"input_ids": ids})
    ids.copy_(torch.arange(ids.numel()).reshape(ids.shape))

    assert None is total([found]).useful_tokens
