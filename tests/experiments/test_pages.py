"""The pages say what the committed tables say, and name commands and files that exist."""

import importlib
import importlib.util
import re
import runpy
import sys
from itertools import chain
from pathlib import Path

import pytest

from experiments import overview, overview_claims
from experiments.account import claims as account_claims
from experiments.account import page as account_page
from experiments.account.size import SMOKE as ACCOUNT
from experiments.adadamp import claims as adadamp_claims
from experiments.adadamp import page as adadamp_page
from experiments.common.claims import REPRODUCES, Claim, table
from experiments.common.markdown import mean, not_run_yet, page
from experiments.common.scale import FULL, HERE, smoke
from experiments.date import claims as date_claims
from experiments.date import page as date_page
from experiments.dpsgd import claims as dpsgd_claims
from experiments.dpsgd import page as dpsgd_page
from experiments.fight import claims as fight_claims
from experiments.fight import page as fight_page
from experiments.fight.size import SMOKE as FIGHT
from experiments.flatness import claims as flatness_claims
from experiments.flatness import page as flatness_page
from experiments.language import claims as language_claims
from experiments.language import page as language_page
from experiments.lena import claims as lena_claims
from experiments.lena import page as lena_page
from experiments.lena.tuned import claims as lena_tuned_claims
from experiments.methods import claims as methods_claims
from experiments.methods import page as methods_page
from experiments.methods.network import claims as network_claims
from experiments.nets import claims as nets_claims
from experiments.nets import page as nets_page
from experiments.nets.size import SMOKE as NETS
from experiments.noise import claims as noise_claims
from experiments.noise import page as noise_page
from experiments.overview_claims import UNJUDGED
from experiments.overview_entries import MAIN, PAPERS
from experiments.rivals import claims as rivals_claims
from experiments.rivals import page as rivals_page
from experiments.smoothness import claims as smoothness_claims
from experiments.smoothness import page as smoothness_page
from experiments.time import claims as time_claims
from experiments.time import page as time_page

ROOT = HERE.parent
SPREADS = [
    claim
    for alpha in ACCOUNT.spread_alphas
    for claim in account_claims.spreads(alpha, ACCOUNT.topologies)
]
FIGHTS = [
    *fight_claims.EDGE_CLAIMS,
    *fight_claims.OVERALL,
    *(claim for cell in FIGHT.cells for claim in fight_claims.of_cell(cell)),
    *fight_claims.DOUBLED,
]
NETS_CLAIMS = [
    *nets_claims.together(NETS),
    *(claim for task in NETS.tasks for claim in nets_claims.of_task(task)),
]
PAGES = {
    "README.md": (overview, list(chain(*MAIN.values()))),
    "claims.md": (overview_claims, list(chain(*PAPERS.values()))),
    "dpsgd.md": (dpsgd_page, dpsgd_claims.CLAIMS),
    "lena.md": (lena_page, [*lena_claims.CLAIMS, *lena_tuned_claims.CLAIMS]),
    "date.md": (date_page, date_claims.CLAIMS),
    "rivals.md": (rivals_page, rivals_claims.CLAIMS),
    "time.md": (time_page, time_claims.CLAIMS),
    # Those of the five schedules are judged on either data set.
    "adadamp.md": (adadamp_page, [*adadamp_claims.CLAIMS, *adadamp_claims.OF_SCHEDULES]),
    "noise.md": (noise_page, noise_claims.CLAIMS),
    "account.md": (account_page, [*account_claims.RATES, *account_claims.NOISES, *SPREADS]),
    "flatness.md": (flatness_page, flatness_claims.CLAIMS),
    "smoothness.md": (smoothness_page, smoothness_claims.CLAIMS),
    "language.md": (language_page, language_claims.CLAIMS),
    "fight.md": (fight_page, FIGHTS),
    "nets.md": (nets_page, NETS_CLAIMS),
    "methods.md": (methods_page, [*methods_claims.CLAIMS, *chain(*network_claims.CLAIMS.values())]),
}
TEXTS = [
    *(ROOT / name for name in ("README.md", "Makefile")),
    *(path for folder in ("docs", "experiments") for path in (ROOT / folder).rglob("*.md")),
    *HERE.rglob("*.py"),
]


def found(pattern: str) -> set[str]:
    """What a pattern's group matches in the documentation and in the studies' own words."""
    return {
        match.group(1)
        for path in TEXTS
        for match in re.finditer(pattern, path.read_text(encoding="utf-8"))
    }


COMMANDS = sorted(found(r"-m (experiments[\w.]*\w)"))


@pytest.mark.parametrize("name", PAGES)
def test_the_committed_page_is_what_the_committed_tables_say(name: str) -> None:
    assert (HERE / name).read_text(encoding="utf-8") == PAGES[name][0].text(FULL)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_without_runs_says_so_of_every_claim(tmp_path: Path, name: str) -> None:
    made, claims = PAGES[name]
    text = made.text(smoke(tmp_path))
    assert text.count("not run yet") + text.count(UNJUDGED) == len(claims)
    assert "not results" in text.splitlines()[0]
    made.write(smoke(tmp_path))
    assert (tmp_path / name).read_text(encoding="utf-8") == text


def test_the_commands_are_those_of_all_studies() -> None:
    studies = {path.name for path in HERE.iterdir() if (path / "__init__.py").exists()}
    assert {name.split(".")[1] for name in COMMANDS} == studies | {"publish"}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_written_anywhere_exists_and_calls_itself_so(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    is_folder = (ROOT / name.replace(".", "/")).is_dir()
    module = importlib.import_module(f"{name}.command" if is_folder else name)
    with pytest.raises(SystemExit) as ended:
        module.main(["--help"])
    assert not ended.value.code
    assert f"python -m {name} " in " ".join(capsys.readouterr().out.split())
    if is_folder:
        monkeypatch.setattr(sys, "argv", [name, "--help"])
        with pytest.raises(SystemExit) as ended:
            runpy.run_module(f"{name}.__main__", run_name="__main__")
        assert not ended.value.code


def test_modules_and_files_that_are_written_anywhere_exist() -> None:
    modules = found(r"--module (experiments[\w.]*\w)")
    assert modules
    assert all(importlib.util.find_spec(name) for name in modules)
    files = found(r"\b(experiments/[\w/]+\.(?:py|md))")
    assert {"experiments/lena.md", "experiments/lena/page.py"} <= files
    assert [name for name in files if not (ROOT / name).exists()] == []


def test_a_claim_is_evaluated_on_what_its_table_is_given() -> None:
    claims = (
        Claim("a < b", "by one", lambda a, b: (b - a >= 1, f"{a} and {b}")),
        Claim("a > b", "at all", lambda a, b: (a > b, f"{a}")),
        Claim("c", "to come", lambda a, b: None),
    )
    lines = table(REPRODUCES, claims, 1, 3).splitlines()[2:]
    assert lines == [
        "| a < b | by one | 1 and 3 | yes |",
        "| a > b | at all | 1 | **no** |",
        "| c | to come | not run yet | - |",
    ]


def test_a_mean_is_of_what_is_finite() -> None:
    assert mean([1.0, 3.0, float("nan")]) == "2.00 ± 1.41"
    assert mean([2.0, float("inf")], ".0f") == "2"
    assert mean([]) == "-"


def test_a_page_leaves_out_what_has_nothing_to_say() -> None:
    assert page(["a\n", not_run_yet([]), "b\n"], is_smoke=False) == "a\n\nb\n"
    assert not_run_yet(["x: 1 of 2 runs"]).endswith("\n\n- x: 1 of 2 runs\n")
