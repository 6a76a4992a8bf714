"""Runs for the fault tests, forked from one that has imported everything: nursery.py LISTENER.

What takes most of a small run's time is the import of torch; a forked process ends, and is
killed, as any other. Orders of runs of one process come as lines of JSON on stdin, answers go to
stdout. What stands in for the processes of jobs asks at the socket LISTENER; see `tests.forked`.
"""

import json
import os
import runpy
import socket
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.faults import deeds
from tests.forked import hear_again, serve, take_place


def imports() -> None:
    """All that a run imports on its way."""
    import torch

    from gossip import run
    from gossip.report import figures
    from gossip.storage import folder

    folder.provenance()
    torch.optim.SGD([torch.zeros(1)])  # imports much on its own
    assert run
    assert figures


def start(order: dict) -> int:
    """Fork a run: its pid, which is that of its session, too."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        hear_again()
        os.setsid()
        output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, output), (2, output)):
            os.dup2(source, number)
        if order.get("encoding"):
            for stream in (sys.stdout, sys.stderr):
                stream.reconfigure(encoding=order["encoding"])
        os.chdir(order["folder"])
        code = become(order)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def become(order: dict) -> int:
    """The run."""
    from gossip.report import figures
    from gossip.run import main

    if not order["draws"]:
        figures.study_figure, figures.save = (lambda runs: None), (lambda figure, path: path)
    for deed in order["deeds"]:
        deeds.arm(deed)
    return main(order["options"])


def ended(pid: int) -> int | None:
    """The exit code, negative for a signal; None while it runs."""
    done, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if done else None


def main() -> int:
    """Hear both until stdin ends."""
    listener, over = socket.socket(fileno=int(sys.argv[1])), []

    def heard() -> None:
        if not (line := sys.stdin.readline()):
            over.append(True)
            return
        order = json.loads(line)
        answer = start(order) if "options" in order else ended(order["pid"])
        print(json.dumps(answer), flush=True)

    imports()
    order = serve(listener, lambda: over, {sys.stdin: heard})
    if order is None:
        return 0
    take_place(order)
    sys.argv = order.words
    name = sys.argv[0]
    if not name.endswith(".py"):
        return deeds.main(order.words)
    sys.path.insert(0, str(Path(name).parent))
    runpy.run_path(name, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
