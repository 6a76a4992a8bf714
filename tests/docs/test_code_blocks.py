"""The blocks of code in the documentation run; long commands are at least ones that exist."""

import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
import tyro
from build import __main__ as build
from torch import nn

import gossip_sgd
from gossip import run
from gossip.algorithms import ALGORITHMS
from gossip.comm.connect import BACKENDS
from gossip.compare import command as compare
from gossip.config import Config, to_tables
from gossip.landscape import command as landscape
from gossip.launch import mpirun
from gossip.rates import DECAYS, SCALINGS
from gossip.report import command as report
from gossip.report import figures
from gossip.schedule import __main__ as schedule
from gossip.simulate import command as simulate
from gossip.storage import folder
from gossip.watch import command as watch
from tests.docs import pages
from topologies import __main__ as topologies

LANGUAGES = {"python", "sh", "text"}
SMALL = "--algorithm dpsgd --dataset digits --learners 4 --batch-size 20 --steps 2 --out"
BEFORE = {"docs/reliability.md": f"{SMALL} runs/A"}
"""The run that a page has begun with before its Python is met."""
RUN_TOO = {"docs/extending.md", "docs/tutorial.md"}
"""Pages whose commands are not only parsed but run, where they stand."""
PARSERS: dict[str, Callable[[list[str]], object]] = {
    "gossip.run": lambda arguments: of_a_run(arguments),
    "gossip.launch": lambda arguments: of_a_launch(arguments),
    "gossip.report": lambda arguments: tyro.cli(report.Command, args=arguments),
    "gossip.schedule": schedule.parse,
    "gossip.compare": compare.parse,
    "gossip.simulate": simulate.parse,
    "gossip.watch": lambda arguments: tyro.cli(watch.Command, args=arguments),
    "gossip.landscape": landscape.parse,
    "topologies": lambda arguments: tyro.cli(topologies.Arguments, args=arguments),
    "build": build.main_parser().parse_args,
}
"""What refuses arguments that a module does not take."""
MAINS = {"gossip.run": run.main, "gossip.report": report.main, "topologies": topologies.main}


@pytest.fixture
def here(tmp_path, monkeypatch) -> Iterator[None]:
    """An empty folder to work in; what is added to tables and modules is gone afterwards.

    Runs draw no pictures here: they would take most of the time, and are tested elsewhere.
    """
    monkeypatch.setattr(figures, "save", lambda figure, path: path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    tables = [(table, dict(table)) for table in (ALGORITHMS, BACKENDS, DECAYS, SCALINGS)]
    yield
    for table, before in tables:
        table.clear()
        table.update(before)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name)
def test_every_block_says_what_it_is(page):
    unknown = [(b.line, b.language) for b in pages.blocks(page) if b.language not in LANGUAGES]
    assert not unknown


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name)
def test_the_code_of_a_page_runs_from_its_top_to_its_end(page, here):
    if pages.name(page) in BEFORE:
        assert run.main(BEFORE[pages.name(page)].split()) == 0
    names = {"__name__": "__main__", **given()}
    for block in pages.blocks(page):
        if block.language == "python":
            if title := re.match(r"# (\w+\.py)\n", block.code):
                Path(title[1]).write_text(block.code, encoding="utf-8")
            padded = "\n" * block.line + block.code  # a traceback tells the line of the page
            exec(compile(padded, str(page), "exec"), names)
        elif block.language == "sh" and pages.name(page) in RUN_TOO:
            for words in map(shlex.split, pages.commands(block)):
                module = words[2]
                assert MAINS[module](words[3:]) == 0, words


def given() -> dict[str, object]:
    """What one's own script has before it meets ours."""
    return {
        "torch": torch,
        "module": nn.Linear(4, 3),
        "loader": [(torch.randn(8, 4), torch.randint(0, 3, (8,))) for _ in range(3)],
        "loss_fn": nn.functional.cross_entropy,
    }


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name)
def test_commands_have_the_options_they_are_given(page, here):
    for block in pages.blocks(page):
        if block.language == "sh":
            for command in pages.commands(block):
                check(shlex.split(command, comments=True))


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name)
def test_commands_in_the_text_name_modules_and_targets_that_exist(page):
    for words in map(str.split, pages.spans(page)):
        if words[0] == "make" and len(words) > 1:
            assert words[1] in targets(), words
        if words[:2] == ["python", "-m"]:
            assert find_spec(words[2]) is not None, words


def check(words: list[str]) -> None:
    """Refuse a command that is not one of ours, or has arguments that it does not take."""
    program, *rest = words
    if program == "make":
        assert rest[0] in targets(), words
    elif program == "pip":
        assert asked_extras(rest) <= extras(), words
    elif program in project()["scripts"]:
        entry = getattr(gossip_sgd, project()["scripts"][program].partition(":")[2])
        PARSERS[entry.args[0]](rest)
    else:
        assert program in ("python", "mpirun", "torchrun"), words
        after = [word for word in rest[rest.index("-m") + 1 :] if word != "--"]
        PARSERS[after[0]](after[1:])


def of_a_run(arguments: list[str]) -> None:
    """Options of gossip.run; the run or the config file that it would go on with is there."""
    for option, up in (("--resume", False), ("--config", True)):
        if option in arguments:
            path = Path(arguments[arguments.index(option) + 1])
            where = path.parent if up else path
            where.mkdir(parents=True, exist_ok=True)
            folder.write_config(where, to_tables(Config()))
    run.parse(arguments)


def of_a_launch(arguments: list[str]) -> None:
    """Options of gossip.launch, and of what it starts."""
    options, rest = mpirun.parsed(arguments)
    PARSERS[options.module](rest)


def targets() -> set[str]:
    text = (pages.ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][\w-]*):", text, re.M))


def extras() -> set[str]:
    return set(project()["optional-dependencies"])


def project() -> dict:
    return tomllib.loads((pages.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def asked_extras(words: list[str]) -> set[str]:
    return {
        extra
        for names in re.findall(r"\[([\w,-]+)\]", " ".join(words))
        for extra in names.split(",")
    }
