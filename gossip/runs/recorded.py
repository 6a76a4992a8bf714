"""One run with its record: what `gossip.run` and a sweep do for each algorithm."""

from collections.abc import Callable
from pathlib import Path

from gossip.checkpoint import Snapshot
from gossip.comm.shutdown.position import Position
from gossip.loop.end_of_step import Agreement
from gossip.loop.outcome import Outcome
from gossip.runs.checkpoints import Checkpoints
from gossip.runs.dispatch import columns, loop
from gossip.runs.recorder import Recorder
from gossip.study import Study


def train_recorded(
    study: Study,
    name: str,
    folder: Path,
    *,
    checkpoints: bool = True,
    start: Snapshot | None = None,
    again: bool = False,
    gap: bool = False,
    position: Position | None = None,
    agreement: Agreement | None = None,
    recorders: Callable[[Recorder], None] = lambda recorder: None,
    say: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Train with the algorithm `name`, its trace, checkpoints and summary in `folder`. Collective.

    Args:
        study: data, start, batches, topology and learning rate.
        name: one of `gossip.algorithms.NAMES`.
        folder: of the run.
        checkpoints: whether to keep some, as the config says.
        start: where the run goes on; None: at the beginning.
        again: whether the folder may hold what was left of the run before.
        gap: whether the trace may lack steps before `start` that nobody can tell of any more.
        position: kept up to date for the message of a process that fails.
        agreement: decides whether the step just done is the last.
        recorders: gets the recorder when it begins.
        say: takes a sentence for the user.

    Raises:
        UserError: the folder cannot be written to, or `start` is of another run.
        LostProcessError: a process was lost, and the others may go on.
    """
    with Recorder(
        study, name, folder, start, again=again, columns=columns(study, name)
    ) as recorder:
        recorders(recorder)
        if gap and start is not None:
            recorder.fill(start.step)
        keep = None
        if checkpoints and study.config.reliability.checkpoint_keep:
            keep = Checkpoints(study, recorder, folder, start, say)
        outcome = loop(study, name)(
            record=recorder.rows, position=position, agreement=agreement, start=start, keep=keep
        )
        recorder.close(outcome)
        if keep is not None:
            keep.close()
        return outcome
