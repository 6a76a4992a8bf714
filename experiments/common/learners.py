"""Learners on hosts: a process each, that answers lines of JSON, which its network does not carry.

They have the variables of torchrun, and are connected while the network is fast.
"""

import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gossip.errors import UserError

READY = "ready"
"""What a learner says when it is connected."""

Learner = subprocess.Popen[str]
"""A process whose standard input and output are pipes of text."""


@contextmanager
def learners(
    commands: Sequence[Sequence[str]], address: str, port: int, interface: str
) -> Generator[list[Learner]]:
    """A process for each command line, terminated at the end.

    Args:
        commands: of the learners, in their order.
        address: of the first, where they meet.
        port: there.
        interface: that they talk over, of the same name on each host.
    """
    job = {"WORLD_SIZE": str(len(commands)), "MASTER_ADDR": address, "MASTER_PORT": str(port)}
    job |= {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GLOO_SOCKET_IFNAME": interface}
    started: list[Learner] = []
    try:
        for j, words in enumerate(commands):
            own = job | {"RANK": str(j), "OMP_NUM_THREADS": "1"}
            started.append(
                subprocess.Popen(
                    words,
                    env=os.environ | own,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
        for learner in started:
            _line(learner)
        yield started
    finally:
        for learner in started:
            learner.terminate()
        for learner in started:
            with learner:  # closes its pipes, and waits
                pass


def module(name: str) -> list[str]:
    """The command line of a module."""
    return [sys.executable, "-m", name]


def ask(asked: Sequence[Learner], question: Mapping[str, object]) -> list[Any]:
    """What the learners answer to the same question, in their order.

    Raises:
        UserError: one of them has ended.
    """
    for learner in asked:
        assert learner.stdin is not None
        learner.stdin.write(json.dumps(question) + "\n")
        learner.stdin.flush()
    return [json.loads(_line(learner)) for learner in asked]


def _line(learner: Learner) -> str:
    assert learner.stdout is not None
    line = learner.stdout.readline()
    if not line:
        raise UserError("a learner has ended before its time; what it said stands above")
    return line
