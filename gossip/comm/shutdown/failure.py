"""A process that fails ends the whole job: one message, one exit code, nobody left waiting."""

import fcntl
import json
import mmap
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gossip.comm.shutdown import overdue, watch
from gossip.comm.shutdown.overdue import Local
from gossip.comm.shutdown.position import Position
from gossip.comm.shutdown.stop import GoingOn, Stop
from gossip.comm.shutdown.watch import SLOT, claim, say
from gossip.comm.startup.environment import may_go_on
from gossip.comm.startup.inherited import flush
from gossip.comm.startup.machine import machine
from gossip.errors import UserError

if TYPE_CHECKING:  # torch stays out of whatever only wants to end well
    from gossip.comm.base import Communicator

ARRIVAL_SECONDS = 1.0
"""How long a process that leaves on purpose waits to see whether all others leave, too."""
RELAY_SECONDS = 0.1
"""How long mpirun gets to pass a message on before it is told to end everything."""
SPEAKER_SECONDS = 2.0
"""How long a failing process waits for the one that is already printing the message."""
WITNESS_SECONDS = 0.5
"""How long one that only lost its connection lets the watcher name the process that died."""
HIGH_FD = 1000
"""A file number above those of all other open files."""


@contextmanager
def ending_the_job(
    comm: "Communicator",
    position: Position,
    *,
    record: Path | None = None,
    last_words: Callable[[], None] | None = None,
    timeout: float = 0,
    stacks: Callable[[], Path | None] = lambda: None,
) -> Iterator[Stop]:
    """Around everything that is done together: what ends one process ends all of them.

    An exception on one process is printed once, with learner, process, host and step, and
    aborts the job with code 1. A user's mistake or a sys.exit that all processes share is
    raised again in each of them; one that only some have is printed and aborts with code 2 or
    its own. A process that dies without an exception is named by the watcher. A message that is
    overdue, or a connection that is lost, aborts with os.EX_TEMPFAIL: the job may be tried again.
    With one process every exception simply goes on, with a note of the step.

    Args:
        comm: the communicator; with several processes it also has `everyone_arrives`, `abort`,
            `lost` and `waiting`, as `Mpi` has.
        position: kept up to date by the loop.
        record: a file that gets a copy of the message, for instance in the run folder.
        last_words: called on process 0, from another thread and perhaps twice, when the job
            may be killed soon: must be quick and leave the run folder readable.
        timeout: seconds that a process may wait for others; 0: for ever.
        stacks: the file that gets the Python stacks of a host's processes when one has waited too
            long, asked then, on any process; None: they go to stderr.

    Yields:
        The requests to stop (signals), to be asked by the loop at every step.
    """
    host = Host(comm, position, record)
    stop = Stop(comm, host.announce_stop, last_words if comm.process == 0 else None)
    with ExitStack() as guards:
        try:
            host.join()
            if comm.processes > 1 and timeout > 0:
                guards.enter_context(host.no_endless_wait(timeout, stacks))
            with stop.listening():
                yield stop
            comm.share(None)  # nobody exits while another is still closing the run
        except BaseException as error:
            host.end(error)
            raise
        host.leave()


class Host:
    """What the processes of one host share: their positions, who speaks, and the watcher."""

    def __init__(self, comm: "Communicator", position: Position, record: Path | None) -> None:
        self._comm: Any = comm
        self._position = position
        self._record = str(record) if record else None
        self._folder: Path | None = None
        self._watched = False
        self._here: list[Local] = []
        self._index = 0
        self.name = name_of(comm)

    def join(self) -> None:
        """Find the other processes of this host, and start their watcher. Collective."""
        if self._comm.processes == 1:
            return
        me = (machine(), os.getpid(), self.name)
        everyone = self._comm.share(me)
        here = [process for process, other in enumerate(everyone) if other[0] == me[0]]
        first = here[0] == self._comm.process
        mine = watcher_folder(len(here)) if first else None
        self._folder = Path(self._comm.share(mine)[here[0]])
        with (self._folder / "positions").open("r+b") as file:
            positions = memoryview(mmap.mmap(file.fileno(), 0))
        self._index = here.index(self._comm.process)
        slots = [positions[i * SLOT.size :][: SLOT.size] for i in range(len(here))]
        self._position.publish(slots[self._index])
        self._here = [
            Local(everyone[p][1], everyone[p][2], Position(slot), self._folder / f"stacks{i}")
            for i, (p, slot) in enumerate(zip(here, slots, strict=True))
        ]
        watched = first and self._start_watcher()
        self._watched = self._comm.share(watched)[here[0]]
        with suppress(OSError):  # where nobody listens
            flags = os.O_WRONLY | os.O_NONBLOCK
            pipe = os.open(self._folder / f"pipe{self._index}", flags)
            # A dying process on Linux lets go of its highest file first: this one has to be
            # before the connection on whose end the launcher kills the others.
            fcntl.fcntl(pipe, fcntl.F_DUPFD_CLOEXEC, HIGH_FD)
            os.close(pipe)

    def _start_watcher(self) -> bool:
        """Whether there is one from now on."""
        job = {
            "pids": [process.pid for process in self._here],
            "names": [process.name for process in self._here],
            "parent": os.getppid(),
            "may_go_on": may_go_on(),
            "record": self._record,
        }
        command = [sys.executable, "-I", "-S", watch.__file__, str(self._folder), json.dumps(job)]
        quiet = subprocess.DEVNULL
        # A session of its own: the launcher's clean-up must not take the witness away.
        done = subprocess.run(
            command, stdin=quiet, stdout=quiet, start_new_session=True, check=False
        )
        return done.returncode == 0

    @contextmanager
    def no_endless_wait(self, timeout: float, stacks: Callable[[], Path | None]) -> Iterator[None]:
        """In this block the job ends when this process waits longer than `timeout` seconds."""
        me = self._here[self._index]

        def left() -> bool:
            return overdue.left_behind(me, self._here) is not None

        def end(what: str, seconds: float) -> None:
            code = 1 if left() else os.EX_TEMPFAIL  # it would end like that again
            self._speak(lambda: self._tell_overdue(what, seconds, stacks()))
            self._abort(code)

        with (
            overdue.stacks_on_signal(me.stacks),
            overdue.watched(self._comm.waiting, timeout, left, self._position.set_waits, end),
        ):
            yield

    def _tell_overdue(self, what: str, seconds: float, file: Path | None) -> None:
        text = overdue.message(self._here[self._index], self._here, what, seconds)
        where = f"stacks in {file}" if appended(file, f"{text}\n\n") else "stacks below"
        # At once: a process that is asked for its stacks may die of it, and end the job.
        say(f"{text}; {where}; the job ends", self._record)
        stacks = overdue.stacks_of(self._here)
        if not appended(file, f"{stacks}\n"):
            say(stacks, None)

    def leave(self) -> None:
        """This process ends as it should, and so do all others."""
        self._position.leave()
        self._tidy()

    def _stand_down(self) -> None:
        """The processes that are left go on, as a host of their own."""
        if self._folder:
            with suppress(OSError):  # the watcher may have seen the first one leave
                (self._folder / watch.GOES_ON).touch()
        self.leave()

    def _tidy(self) -> None:
        """Remove the folder if there is no watcher to do it."""
        if self._folder and not self._watched:
            shutil.rmtree(self._folder, ignore_errors=True)

    def announce_stop(self, signum: int) -> None:
        """Say once per host that a signal asks for the end."""
        folder = self._folder
        if folder and ((folder / "failure").exists() or not claim(folder, "stop")):
            return
        name = "SIGTERM" if signum == signal.SIGTERM else "Ctrl-C"
        with loudspeaker(signum) as fd:
            say(f"{self.name} got {name} at {self._position}: the run stops", self._record, fd)

    def end(self, error: BaseException) -> None:
        """End the job because of `error`; comes back only if this process may raise it."""
        if isinstance(error, GoingOn):
            self._stand_down()
            return
        planned = isinstance(error, UserError | SystemExit)
        if self._comm.processes == 1:
            if not planned:
                error.add_note(f"{self.name} failed at {self._position}")
            return
        if planned and self._comm.everyone_arrives(ARRIVAL_SECONDS):
            self.leave()
            return
        if self._comm.lost(error):
            time.sleep(WITNESS_SECONDS)
        self._speak(lambda: say(self._message(error), self._record))
        self._abort(self._code(error))

    def _speak(self, tell: Callable[[], None]) -> None:
        """Let one process of this host `tell` why the job ends; the others wait for it."""
        if self._folder is None or claim(self._folder, "failure"):
            flush()
            tell()
            time.sleep(RELAY_SECONDS)
            self._tidy()  # who comes later finds no folder, and so nothing to claim
        else:
            time.sleep(SPEAKER_SECONDS)

    def _abort(self, code: int) -> NoReturn:
        self._comm.abort(code)
        time.sleep(SPEAKER_SECONDS)  # MPICH's Abort comes back, and the kill follows
        os._exit(code)

    def _code(self, error: BaseException) -> int:
        if isinstance(error, UserError):
            return 2
        return os.EX_TEMPFAIL if self._comm.lost(error) else exit_code(error)

    def _message(self, error: BaseException) -> str:
        place = f"{self.name} failed at {self._position}"
        if isinstance(error, UserError):
            return f"{place}: {error}"
        if self._comm.lost(error):
            return f"{place}: it cannot reach another process any more ({error}); the job ends"
        trace = "".join(traceback.format_exception(error))
        return f"{trace}{place}: {type(error).__name__}: {error}"


def appended(file: Path | None, text: str) -> bool:
    """Whether `text` is in `file` now, behind what was there; not if there is none."""
    if file is not None:
        with suppress(OSError, ValueError), file.open("a", encoding="utf-8") as record:
            record.write(text)
            return True
    return False


@contextmanager
def loudspeaker(signum: int) -> Iterator[int]:
    """Where a message is seen after a signal.

    Open MPI's mpirun, the parent of process 0, passes nothing on after SIGTERM: there the message
    goes straight to mpirun's stderr.
    """
    if signum != signal.SIGTERM or "OMPI_COMM_WORLD_RANK" not in os.environ:
        yield 2
        return
    try:
        fd = os.open(f"/proc/{os.getppid()}/fd/2", os.O_WRONLY | os.O_APPEND)
    except OSError:
        yield 2
        return
    try:
        yield fd
    finally:
        os.close(fd)


def name_of(comm: "Communicator") -> str:
    """'learner 3 (process 3 on host H)', or 'learners 4-7 (process 1 on host H)'."""
    first, last = comm.hosted[0], comm.hosted[-1]
    learners = f"learner {first}" if first == last else f"learners {first}-{last}"
    return f"{learners} (process {comm.process} on host {socket.gethostname()})"


def exit_code(error: BaseException) -> int:
    """What a failing process exits with: 130 for Ctrl-C, else 1 or sys.exit's."""
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, SystemExit) and isinstance(error.code, int):
        return error.code or 1
    return 1


def watcher_folder(num_slots: int) -> str:
    """A private folder for the watcher, in memory where the system has that.

    In it: the file `positions`, with a slot per process, and a pipe per process.
    """
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="gossip-", dir=memory))
    (folder / "positions").write_bytes(bytes(num_slots * SLOT.size))
    for slot in range(num_slots):
        os.mkfifo(folder / f"pipe{slot}")
    return str(folder)
