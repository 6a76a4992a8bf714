"""Whether a job that has lost a process is started again, and how; for `gossip.launch`.

Imports nothing that takes time: the launcher starts at once.
"""

import itertools
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gossip.storage.glance import (
    all_ended,
    checkpoints,
    free_folder,
    learners_left,
    read_config,
)
from gossip.storage.names import CONFIG

CRASHES = (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT)
LOST = {os.EX_TEMPFAIL, *CRASHES, *(128 + crash for crash in CRASHES), signal.SIGTERM}
"""What mpirun exits with after a process has died (MPICH's: the signal, Open MPI's: 128 more), or
could not be reached. SIGTERM is what MPICH's ends the others with and gives in place of SIGABRT and
SIGBUS now and then; a process that is asked to end by it gives 128 more. Not here: that; 1, an
exception; 2, a mistake; that of Ctrl-C."""

ASYNCHRONOUS = "ad-psgd"
"""The algorithm that does not run on any number of processes."""

MAY_NAME_CODE = ("topology", "dataset", "model", "loss")
"""Options whose `module:function` counts only on the command line, at a resume, too."""


@dataclass(frozen=True)
class Try:
    """A start of the job: processes, command line, and the checkpoints that were there."""

    processes: int
    words: Sequence[str]
    """The command line of gossip.run."""
    steps: Mapping[str, int] = field(default_factory=dict)
    """Newest checkpoint of each run in the folder when it was started."""

    @property
    def out(self) -> Path | None:
        """The run folder, if the command line tells."""
        out = value_of(self.words, "resume") or value_of(self.words, "out")
        return Path(out) if out else None

    @property
    def goes_on(self) -> bool:
        """Whether the job is to go on when it loses a process."""
        return value_of(self.words, "on-failure") == "continue"


def first_try(processes: int, module: str, words: Sequence[str]) -> Try:
    """The start that the user asks for, in a run folder that we know if it may be needed."""
    first = Try(processes, with_folder(words) if module == "gossip.run" else words)
    return first if first.out is None else replace(first, steps=checkpoints(first.out))


def value_of(words: Sequence[str], name: str) -> str | None:
    """The value of option --NAME, a-b or a_b, in a command line; the last one counts."""
    found = None
    for word, following in itertools.zip_longest(words, words[1:]):
        flag, equals, value = word.partition("=")
        if flag.startswith("--") and flag[2:].replace("_", "-") == name:
            found = value if equals else following
    return found


def with_folder(words: Sequence[str]) -> list[str]:
    """The command line of gossip.run, with a folder that we know if it may have to be resumed."""
    may_continue = value_of(words, "on-failure") == "continue" or value_of(words, "config")
    if not may_continue or value_of(words, "out") or value_of(words, "resume"):
        return list(words)
    return [*words, "--out", str(free_folder())]


def next_try(last: Try, code: int) -> tuple[Try | None, str]:
    """How to go on after mpirun's exit code, if at all, and what to tell the user.

    The run is resumed on fewer processes each time, and on a single one as long as it gets on.
    An mpirun that lets a job do without lost processes says 0 even where all were lost.
    """
    out, asked = last.out, value_of(last.words, "on-failure")
    if code == 0 and out is not None and asked == "continue" and not all_ended(out):
        code = os.EX_TEMPFAIL
    if code not in LOST or out is None or asked not in (None, "continue"):
        return None, ""
    ended = f"a process was lost (code {code})"
    try:
        config = read_config(out)
        learners = learners_left(out) or config["gossip"]["learners"]
        policy = asked or config.get("reliability", {}).get("on_failure")
        processes = fewer(last.processes, learners)
        if ASYNCHRONOUS in config.get("algorithm", ()):
            processes = 1  # or one for each learner
    except FileNotFoundError:
        if asked is None and value_of(last.words, "config") is None:
            return None, ""
        return None, f"{ended} before {out / CONFIG} was written: there is nothing to go on from"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return None, f"{ended}, and {out / CONFIG} cannot be read ({error}): begin a new run"
    if policy != "continue":
        return None, ""
    steps = checkpoints(out)
    if last.processes == 1 and not any(s > last.steps.get(run, 0) for run, s in steps.items()):
        return None, f"{ended} on 1 process, without a new checkpoint since it started: giving up"
    where = ", ".join(f"{run} step {step}".lstrip() for run, step in sorted(steps.items()))
    noun = "process" if processes == 1 else "processes"
    text = f"{ended}: {out} goes on from {where or 'the beginning'} on {processes} {noun}"
    return Try(processes, resuming(last.words, out), steps), text


def fewer(processes: int, learners: int) -> int:
    """The next smaller number of processes that divides the learners; 1 is followed by 1."""
    return max((p for p in range(1, processes) if learners % p == 0), default=1)


def resuming(words: Sequence[str], out: Path) -> list[str]:
    """The command line that goes on with a run; the folder knows all its options."""
    named = {name: value_of(words, name) or "" for name in MAY_NAME_CODE}
    code = [f"--{name}={value}" for name, value in named.items() if ":" in value]
    return ["--resume", str(out), "--on-failure", "continue", *code]
