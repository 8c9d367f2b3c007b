"""Rows of one name that notes, commits or hosts tell apart: repeats where their figures are alike, and else none."""

from __future__ import annotations

import pytest

from slowstep.audit.read.tables import table_rows


def names(table: str) -> list[str]:
    return [row["label"] for row in table_rows(table, "t")]


APART = {
    "notes": (
        "run,samples/s,notes\nllama,21.0,baseline\nllama,29.5,+ flash\nllama,38.0,+ flash + packing\n",
        ["llama baseline", "llama + flash", "llama + flash + packing"],
    ),
    "commits, whose regression is 28 %": (
        "run,commit,tokens/s\ngpt2,a1b2c3d,41200\ngpt2,9f8e7d6,29800\nllama,a1b2c3d,7010\nllama,9f8e7d6,6995\n",
        ["gpt2 a1b2c3d", "gpt2 9f8e7d6", "llama"],
    ),
    "hosts of other devices": (
        "run,host,samples/s\nbase,a100-01,412\nbase,v100-07,171\ncompile,a100-01,520\ncompile,a100-02,518\n",
        ["base a100-01", "base v100-07", "compile"],
    ),
    "a note on one row": ("run,samples/s,note\na,21.0,\na,29.5,fused\nb,30.0,\n", ["a", "a fused", "b"]),
}


@pytest.mark.parametrize("name", APART)
def test_what_a_remark_tells_apart_is_no_repeat(name: str) -> None:
    """Before and after are no two measurements of one thing."""
    table, expected = APART[name]

    assert expected == names(table)


REPEATS = {
    "notes on when": "run,samples/s,notes\na,100,first try\na,112,again on Friday\n",
    "notes of alike figures": "run,samples/s,notes\na,21.0,first\na,21.4,second\n",
    "hosts that differ as nodes do": "run,host,samples/s\na,n01,412\na,n02,350\na,n03,380\n",
    "no remarks": "run,samples/s\na,412\na,171\n",
    "one remark": "run,samples/s,notes\na,412,on the cluster\na,171,on the cluster\n",
}


@pytest.mark.parametrize("name", REPEATS)
def test_repeats_stay_repeats(name: str) -> None:
    (row,) = table_rows(REPEATS[name], "t")

    assert ("a", True) == (row["label"], len(row["figures"]["samples_per_second"]) > 1)
