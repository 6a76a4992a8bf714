"""A program that is forked from `tests.nursery`, and this process ends as it does.

`python -m tests.stand_in -m MODULE [WORD ...]`, or a script in place of -m, stands in for a Python
with these words; so does any that starts with FORKED in its environment, `instead`.
"""

import contextlib
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

NURSERY = "TESTS_NURSERY"
"""Folder in which the nurseries listen, one for each environment of Python."""
PART = "TESTS_PART"
"""Name of the part of the tests that a program is started by."""
FORKED = "TESTS_FORKED"
"""If it is there, Python forks what it would start; see `tests.start`."""
SPAWNED = "from multiprocessing.spawn import spawn_main"
WORKER = "import sys;exec(eval(sys.stdin.readline()))"
"""How the programs begin of what multiprocessing spawns, and of a worker of xdist; those are forked
only if FORKED is this, beside modules and scripts."""
STARTERS = ("gossip.launch", "torch.distributed.run", "tests.stand_in")
"""Modules that import little, and start others."""
MOST_FILES = 250
"""That Linux passes on in one message."""
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


@dataclass(frozen=True)
class Child:
    """What has been forked, and by whom, who sends its exit code when it ends."""

    pid: int
    server: socket.socket


def place(nurseries: str | Path, prefix: str | Path = sys.prefix) -> Path:
    """Where the nursery of an environment of Python listens, this one's unless told."""
    return Path(nurseries, Path(prefix).name)


def ask(
    at: Path,
    words: Sequence[str],
    files: Mapping[int, int],
    environment: Mapping[str, str],
    folder: str,
) -> Child:
    """Have a program forked: `files` are its files, by their numbers in it."""
    order = {
        "numbers": list(files),
        "environment": dict(environment),
        "folder": folder,
        "niceness": os.nice(0),
        "words": list(words),
    }
    server = socket.socket(socket.AF_UNIX)
    server.connect(str(at))
    socket.send_fds(server, [b"\n"], list(files.values()))
    server.sendall(json.dumps(order).encode() + b"\n")
    return Child(int(_line(server)), server)


def ended(child: Child) -> int:
    """Wait for its exit code, below 0 for a signal."""
    return int(_line(child.server) or -signal.SIGKILL)  # no answer: the nursery has died


def _line(server: socket.socket) -> bytes:
    """A line, and not a byte of the next."""
    line = b""
    while not line.endswith(b"\n") and (byte := server.recv(1)):
        line += byte
    return line


def main(words: list[str]) -> None:
    """Have it forked, pass on signals, and end as it does."""
    files = {number: number for number in _open_files()}
    child = ask(place(os.environ[NURSERY]), words, files, os.environ, str(Path.cwd()))
    for signum in PASSED_ON:
        signal.signal(signum, lambda number, _: _pass_on(number, child.pid))
    code = ended(child)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def instead() -> None:
    """Be a stand-in where this Python, which is about to start, would import much."""
    words = sys.orig_argv[1:]
    while words[:1] and words[0].startswith("-") and words[0] not in ("-m", "-c"):
        words.pop(0)
    match words:
        case ["-m", module, *_] if module in STARTERS:
            return
        case ["-c", code, *_] if not code.startswith(os.environ[FORKED]):
            return
        case [_, *_]:
            main(words)


def _open_files() -> list[int]:
    """Numbers of this process's files: pipes to who has started it, too."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the folder itself
            os.fstat(int(link.name))
            found.append(int(link.name))
    return sorted(found)[:MOST_FILES]


def _pass_on(signum: int, pid: int) -> None:
    """Let the process hear a signal, unless it has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signum)


if __name__ == "__main__":
    main(sys.argv[1:])
