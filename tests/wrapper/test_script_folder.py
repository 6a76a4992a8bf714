"""The folder of a script's run, in the hands of commands that know another kind of run."""

from contextlib import suppress

import pytest
import torch
from torch import nn

import gossip
from gossip import run
from gossip.compare import command as compare
from gossip.landscape import command as landscape


@pytest.fixture
def interrupted(tmp_path):
    """The folder of a script that an exception has ended."""
    model = gossip.Gossip(nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with suppress(KeyboardInterrupt), gossip.record(model, tmp_path / "mine", every=1):
        for _ in range(2):
            model(torch.ones(1, 3)).sum().backward()
            optimizer.step()
        raise KeyboardInterrupt
    return tmp_path / "mine"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (run, ["--resume", "{}"]),
        (run, ["--config", "{}/config.toml", "--out", "{}-again"]),
        (compare, ["--config", "{}/config.toml", "--out", "{}-again"]),
        (landscape, ["{}"]),
    ],
    ids=["resume", "config", "compare", "landscape"],
)
def test_no_command_trains_something_else_by_a_scripts_config(
    command, arguments, interrupted, capsys
):
    before = contents(interrupted)
    assert command.main([text.format(interrupted) for text in arguments]) == 2
    assert "is of a script's run (gossip.record)" in capsys.readouterr().err
    assert contents(interrupted) == before
