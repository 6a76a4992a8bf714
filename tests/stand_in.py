"""What mpirun starts in place of a process of a job: it has that forked, and ends as it does.

Usage: stand_in.py SOCKET [WORDS for that process]; see `tests.forked`, which listens there.
"""

import contextlib
import json
import os
import resource
import signal
import socket
import sys
from pathlib import Path

CONNECTION = "PMI_FD"
"""Number of the open file by which MPICH's mpirun speaks with a process."""
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def main(path: str, words: list[str]) -> None:
    """Order a process, pass on signals, and end as it does."""
    files = [0, 1, 2, *([int(os.environ[CONNECTION])] if CONNECTION in os.environ else [])]
    order = {"environment": dict(os.environ), "folder": str(Path.cwd()), "words": words}
    with socket.socket(socket.AF_UNIX) as server, server.makefile() as answers:
        server.connect(path)
        socket.send_fds(server, [b"\n"], files)
        server.sendall(json.dumps(order).encode() + b"\n")
        pid = int(answers.readline())
        for signum in PASSED_ON:
            signal.signal(signum, lambda number, _: pass_on(number, pid))
        code = int(answers.readline() or -signal.SIGKILL)  # no answer: the server has died
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def pass_on(signum: int, pid: int) -> None:
    """Let the process hear a signal, unless it has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signum)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
