"""A run in which something happens at a chosen call: deeds.py PLACE:CALL[:DEED[:PROCESS]] OPTIONS.

DEED is the name of a signal (KILL if left out), which process PROCESS (0 if left out) sends itself
at the CALL-th call of PLACE, or one of DEEDS. Others follow behind a comma. There is a picture only
where one of them is `picture`. OPTIONS are those of gossip.run.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any

HOUR = 3600.0
PICTURE = "picture"


def places() -> dict[str, list[tuple[Any, str]]]:
    """Name -> what is called there: objects and their attributes."""
    from gossip.checkpoint import Writer, files, saving
    from gossip.comm.shutdown.failure import Host
    from gossip.comm.stacked import Stacked
    from gossip.data.sampling import Sampler
    from gossip.monitor import Monitor
    from gossip.runs import identity
    from gossip.storage import folder
    from gossip.task import Task
    from gossip.trace import Trace

    communicators = [Stacked]
    with suppress(ImportError):
        from gossip.comm.transports.mpi import Mpi

        communicators.append(Mpi)
    return {
        "data": [(Sampler, "indices")],
        "gradient": [(Task, "gradient")],
        "exchange": [(communicator, "start_mix") for communicator in communicators],
        "average": [(communicator, "mean") for communicator in communicators],
        "started-average": [(communicator, "start_mean") for communicator in communicators],
        "gather": [(communicator, "gather") for communicator in communicators],
        "monitor": [(Monitor, "__call__")],
        "checkpoint": [(Writer, "save")],
        "checkpoint-file": [(files.os, "fsync")],
        "checkpoint-name": [(saving, "sync_folder")],
        "trace": [(Trace, "append")],
        "summary": [(folder, "write_summary")],
        "code": [(identity, "code")],
        "meeting": [(Host, "join")],
    }


def arm(words: str) -> None:
    """Have it happen, in this process, if it is the one."""
    place, call, deed, process = (*words.split(":"), *("KILL", "0")[words.count(":") - 1 :])
    if int(process) != rank():
        return
    for owner, name in places()[place]:
        function = getattr(owner, name)
        setattr(owner, name, at_call(int(call), DEEDS.get(deed) or by_signal(deed), function))


def rank() -> int:
    """Number of this process in its job."""
    return int(os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or 0)


def by_signal(name: str) -> Callable[[], None]:
    """A deed: a signal of that name for this process."""
    return lambda: os.kill(os.getpid(), signal.Signals[f"SIG{name}"])


def an_hour_back() -> None:
    """Somebody sets the clock."""
    now, text, local = time.time, time.strftime, time.localtime
    time.time = lambda: now() - HOUR
    time.localtime = lambda seconds=None: local(now() - HOUR if seconds is None else seconds)
    time.strftime = lambda form, t=None: text(form, t or time.localtime())


def release() -> None:
    """A new version is installed."""
    from gossip.runs import identity

    identity.code = lambda: "0123456789abcdef"


DEEDS = {"hour": an_hour_back, "release": release}


def at_call(number: int, deed: Callable[[], None], function: Callable) -> Callable:
    """`function`, with a deed before its call of that number, counted from 1."""
    calls = []

    @wraps(function)
    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(None)
        if len(calls) == number:
            deed()
        return function(*arguments, **options)

    return counted


def main(words: list[str]) -> int:
    from gossip.comm.startup.environment import prepare_environment

    prepare_environment()
    asked = words[0].split(",")
    for deed in asked:
        if deed != PICTURE:
            arm(deed)
    from gossip.report import figures
    from gossip.run import main as run

    if PICTURE not in asked:
        # A picture takes longer than the run.
        figures.study_figure, figures.save = (lambda runs: None), (lambda figure, path: path)
    return run(words[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
