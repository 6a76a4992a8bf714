"""Two hosts: network namespaces of this machine with a cable between them. Needs root."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from shutil import which

NETWORK = "10.78.0"
NAMED = 'hostname "$0" && exec "$@"'


def name(j: int) -> str:
    """The namespace of host j; other tests on this machine have their own."""
    return f"gossip-{os.getpid()}-{j}"


def address(j: int) -> str:
    """Its address, which is its name, too: so it is found without a name service."""
    return f"{NETWORK}.{j + 1}"


def command(j: int, *words: str) -> list[str]:
    """A command line that runs on host j."""
    return [
        "ip",
        "netns",
        "exec",
        name(j),
        "unshare",
        "--uts",
        "sh",
        "-c",
        NAMED,
        address(j),
        *words,
    ]


@contextmanager
def two_hosts() -> Iterator[None]:
    """In this block they are there.

    Raises:
        OSError: this machine cannot have them.
    """
    if os.geteuid() != 0:
        raise PermissionError("it needs root")
    if which("ip") is None:
        raise FileNotFoundError("there is no `ip`")
    try:
        for j in range(2):
            _ip(f"netns add {name(j)}")
            _ip(f"-n {name(j)} link set lo up")
        _ip(f"-n {name(0)} link add eth0 type veth peer name eth0 netns {name(1)}")
        for j in range(2):
            _ip(f"-n {name(j)} addr add {address(j)}/24 dev eth0")
            _ip(f"-n {name(j)} link set eth0 up")
        yield
    finally:
        for j in range(2):
            lose(j)
            subprocess.run(["ip", "netns", "del", name(j)], capture_output=True, check=False)


def lose(j: int) -> None:
    """Host j is gone: all its processes at once."""
    found = subprocess.run(["ip", "netns", "pids", name(j)], capture_output=True, text=True)
    for pid in map(int, found.stdout.split()):
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(pid, signal.SIGKILL)


def _ip(words: str) -> None:
    done = subprocess.run(["ip", *words.split()], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ip {words}: {done.stderr.strip()}")
