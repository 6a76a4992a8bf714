"""The driver runs part after part, each in processes of its own, and shows all results."""

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from experiments.gpu_check import report
from experiments.gpu_check.parts import FACTS, Part, command, parts, probe
from experiments.gpu_check.report import Outcome
from experiments.gpu_check.running import Ended, run
from gossip.errors import UserError, lookup

TOTAL_SECONDS = 460.0
"""Seconds for all parts: under 8 minutes with the table, whatever hangs."""
LEAST_SECONDS = 20.0
"""Seconds left below which a part is not begun."""
SHARE = 0.6
"""Share of a part's time limit after which it begins nothing new: starting takes the rest."""
SHARED_GPUS = "NCCL_MULTI_RANK_GPU_ENABLE"
"""Lets NCCL 2.31 put several processes on one GPU."""


@dataclass
class Driver:
    """The user's options, and the results so far."""

    device: str
    backend: str
    smoke: bool
    nccl: Path | None
    only: Sequence[str]
    """Names of the parts to run; none: all."""
    out: Path
    outcomes: list[Outcome] = field(default_factory=list)
    _able: dict[int, bool] = field(default_factory=dict)
    _start: float = field(default_factory=time.monotonic)

    def run(self) -> int:
        """Run all parts, and show what there is, however it ends; the exit code.

        Raises:
            UserError: no such part; the device cannot be used at all.
        """
        known = {part.name: part for part in parts(smoke=self.smoke)}
        todo = [lookup(known, name, "part") for name in self.only] or list(known.values())
        (self.out / "logs").mkdir(parents=True, exist_ok=True)
        for part in (FACTS, *todo):
            part.file(self.out).unlink(missing_ok=True)
        facts = self._ended(FACTS, 1)
        if facts.code != 0:
            raise UserError(facts.reason)
        try:
            for part in todo:
                self._try(part)
        finally:
            self._keep()
            report.show(self.outcomes, todo, self.out)
        return report.exit_code(self.outcomes)

    def _try(self, part: Part) -> None:
        """Run a part with as many processes as can work together, and note how it ended."""
        notes: list[str] = []
        processes = self._processes(part, notes) if part.processes else 1
        left = TOTAL_SECONDS - (time.monotonic() - self._start)
        if left < LEAST_SECONDS:
            reason = f"{TOTAL_SECONDS:.0f} s are over"
            self._note(Outcome(part.name, report.NOT_RUN, 0.0, [reason]))
            return
        ended = self._ended(part, processes)
        self._note(report.judged(part, ended, self.out, notes))

    def _processes(self, part: Part, notes: list[str]) -> int:
        """The number of processes that the part wants, or else the number of GPUs."""
        wanted = part.processes
        if wanted not in self._able:
            ended = self._ended(probe(wanted), wanted)
            self._able[wanted] = ended.code == 0
            if ended.code != 0:
                why = [f"{wanted} processes cannot work together here: {ended.reason}"]
                self._note(Outcome(f"probe-{wanted}", report.result(ended), ended.seconds, why))
        if self._able[wanted]:
            return wanted
        gpus = json.loads(FACTS.file(self.out).read_text(encoding="utf-8"))["gpus"]
        processes = fitting(part.learners, gpus)
        notes.append(f"on {processes} instead of {wanted} processes, as there are {gpus} GPUs")
        return processes

    def _ended(self, part: Part, processes: int) -> Ended:
        left = TOTAL_SECONDS - (time.monotonic() - self._start)
        seconds = min(part.seconds, left)
        self._say(f"{part.name}, at most {seconds:.0f} s ...")
        options = ["--file", str(part.file(self.out)), "--device", self.device]
        options += ["--backend", self.backend, "--seconds", f"{SHARE * seconds:.0f}"]
        options += ["--smoke"] if self.smoke else []
        log = self.out / "logs" / f"{part.name}.txt"
        return run(command(part, processes, options), seconds, log, self._environment())

    def _environment(self) -> dict[str, str]:
        own = {"OMP_NUM_THREADS": "1"} | dict(os.environ) | {SHARED_GPUS: "1"}
        return own | ({} if self.nccl is None else {"LD_PRELOAD": str(self.nccl.resolve())})

    def _note(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self._say(f"{outcome.part}: {outcome.result}, {outcome.seconds:.0f} s")
        for note in outcome.notes:
            self._say(f"{outcome.part}: {note}")

    def _keep(self) -> None:
        """Add to the facts of the machine how each part ended."""
        file = FACTS.file(self.out)
        facts = json.loads(file.read_text(encoding="utf-8"))
        facts |= {
            "seconds": round(time.monotonic() - self._start),
            "load_average_at_end": [round(load, 2) for load in os.getloadavg()],
            "parts": [asdict(outcome) for outcome in self.outcomes],
        }
        file.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")

    @staticmethod
    def _say(text: str) -> None:
        print(f"gpu-check: {text}", file=sys.stderr, flush=True)


def fitting(learners: int, most: int) -> int:
    """The largest number of processes, up to `most`, that can host so many learners equally."""
    return max(p for p in range(1, max(1, most) + 1) if learners % p == 0)
