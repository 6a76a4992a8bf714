"""The table of docs/scale.md is what the command under it prints."""

import shlex
from dataclasses import replace

import pytest

from gossip.simulate import command
from gossip.simulate.outlook import answers
from tests.docs import pages

PAGE = pages.ROOT / "docs" / "scale.md"
LINES = {
    "DPSGD, one peer: s/step, efficiency": "dpsgd on one-peer-exponential",
    "DPSGD, ring": "dpsgd on ring",
    "DPSGD, exponential graph": "dpsgd on exponential",
    "SSGD, halving and doubling": "ssgd by halving-doubling all-reduce",
    "SSGD, ring all-reduce": "ssgd by ring all-reduce",
}
"""First cell of a row -> the simulator's name of it."""
LEARNERS = (64, 1000)
"""The first columns; the last is another minute."""


@pytest.fixture(scope="module")
def found():
    """(name, n) -> what the simulator says."""
    words = shlex.split(pages.blocks(PAGE)[0].code.replace("\\\n", " "))
    assert words[:3] == ["python", "-m", "gossip.simulate"]
    asked = command.question(command.parse(words[3:]))
    return {(line.name, line.learners): line for line in answers(replace(asked, learners=LEARNERS))}


@pytest.mark.parametrize("cell", LINES)
def test_the_first_columns_are_the_commands(cell, found):
    rows = [
        row.split(" | ") for row in pages.prose(PAGE).splitlines() if row.startswith(f"| {cell} |")
    ]
    lines = [found[LINES[cell], n] for n in LEARNERS]
    written = [f"{line.seconds:.3f}, {100 * line.efficiency:.0f} %" for line in lines]
    assert rows[0][1:3] == written
