"""Agreement before the run: one process's mistake ends all, and all run the same config."""

import io
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast

from gossip.comm.startup.environment import check_facts, speaks
from gossip.comm.startup.launchers import launched
from gossip.comm.startup.rendezvous import everyone
from gossip.errors import UserError

if TYPE_CHECKING:
    from gossip.comm.base import Communicator

T = TypeVar("T")

SHORT_CHARS = 60


@dataclass(frozen=True)
class End:
    """How a process would end: with a mistake, or with an exit code and what it has printed."""

    code: int
    mistake: str = ""
    out: str = ""
    err: str = ""


def together(function: Callable[[], T]) -> T:
    """The result of `function`, which every process calls; what ends one of them ends all.

    Collective, and the first thing that a job does: MPI is started before `function` is called,
    since a process that ends without having been there leaves the others in MPI_Init for ever.
    With one process this is `function()`, and nothing is started.

    Raises:
        UserError: on all processes: the mistakes of all, with whose they are.
        SystemExit: on all processes; process 0 has printed what the others had to say.
        CutOffError: on this process alone: it has no MPI, does not find the others, or cannot tell
            which there are.
    """
    check_facts()
    how = launched()
    if how is None or how.size == 1:
        return function()
    everyone(None)
    result = _attempt(function)
    ends = everyone(result if isinstance(result, End) else None)
    if isinstance(result, End) or any(ends):
        _end(ends)
    return result


def _attempt(function: Callable[[], T]) -> T | End:
    """The result of `function`, or how it would end this process, which it must not do yet."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        try:
            return function()
        except UserError as error:
            return End(2, mistake=str(error))
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
            return End(code, out=out.getvalue(), err=err.getvalue())
        except Exception:
            return End(1, err=traceback.format_exc())


def _end(ends: list[End | None]) -> NoReturn:
    """Raise what these ends come to; process 0 prints what the exits have printed."""
    mistakes = []
    for end in dict.fromkeys(end for end in ends if end):
        whose = [process for process, other in enumerate(ends) if other == end]
        everywhere = len(whose) == len(ends)
        where = "" if everywhere else f"on {_listed('process', 'processes', whose)}: "
        if end.mistake:
            mistakes.append(where + end.mistake)
        elif speaks():
            print(end.out, end="")
            print(where.strip(), end.err, sep="\n" if where else "", end="", file=sys.stderr)
    if mistakes:
        raise UserError("; ".join(mistakes))
    raise SystemExit(max(end.code for end in ends if end))


def on_first(comm: "Communicator", function: Callable[[], T]) -> T:
    """The result of `function`, called on process 0 alone; its mistake is raised everywhere."""
    result = mistake = None
    if comm.process == 0:
        try:
            result = function()
        except UserError as error:
            mistake = str(error)
    result, mistake = comm.share((result, mistake))[0]
    if mistake is not None:
        raise UserError(mistake)
    return result


def on_all(comm: "Communicator", function: Callable[[], T]) -> T:
    """The result of `function` on this process; the mistakes of some are raised on all."""
    result = mistake = None
    try:
        result = function()
    except UserError as error:
        mistake = str(error)
    if mistakes := [text for text in comm.share(mistake) if text is not None]:
        raise UserError("; ".join(dict.fromkeys(mistakes)))
    return cast(T, result)


def agree(comm: "Communicator", facts: Mapping[str, str]) -> None:
    """Check that all processes run the same thing. Collective.

    Args:
        comm: the communicator.
        facts: what has to be the same, such as "config" -> its hash.

    Raises:
        UserError: a fact differs; the same text on every process.
    """
    told = comm.share(dict(facts))
    local = len(comm.hosted)
    differing = {
        name: [each.get(name, "nothing") for each in told]
        for name in dict.fromkeys(name for each in told for name in each)
        if len({each.get(name) for each in told}) > 1
    }
    if differing:
        texts = (f"{name}: {_groups(values, local)}" for name, values in differing.items())
        raise UserError("the processes disagree about " + "; ".join(texts))


def _groups(values: list[str], local: int) -> str:
    """'X on process 0 (learner 0), Y on processes 1, 2 (learners 1, 2)'."""
    texts = []
    for value in dict.fromkeys(values):
        processes = [p for p, other in enumerate(values) if other == value]
        learners = [j for p in processes for j in range(p * local, (p + 1) * local)]
        short = value if len(value) <= SHORT_CHARS else value[: SHORT_CHARS - 3] + "..."
        texts.append(
            f"{short} on {_listed('process', 'processes', processes)} "
            f"({_listed('learner', 'learners', learners)})"
        )
    return ", ".join(texts)


def _listed(one: str, many: str, numbers: list[int]) -> str:
    """'learner 3', 'learners 1, 2', 'learners 0, 1, ..., 15'."""
    if len(numbers) == 1:
        return f"{one} {numbers[0]}"
    shown = [str(number) for number in numbers]
    if len(shown) > 4:
        shown = [*shown[:2], "...", shown[-1]]
    return f"{many} {', '.join(shown)}"
