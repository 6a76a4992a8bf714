"""What code and pages refer to is in the repository: no document that only its authors have."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.docs import pages

FOLDERS = ("gossip", "topologies", "experiments", "examples", "tests", "docs", "tools")
SOURCES = [
    path
    for folder in FOLDERS
    for path in sorted((pages.ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".md") and path != Path(__file__)
]
ELSEWHERE = re.compile(
    r"\bSPEC\b|\b[Rr]egister,? [A-Z]\d|\bthe register\b|\boracles?\.json\b"
    r"|\bof the specification\b|\b[Oo]racles? [A-Z]\d|def test_[a-z]\d+_"
)
HEADING = re.compile(r"(docs/\w+\.md)#([\w-]+)")


def test_nothing_refers_to_a_document_that_is_not_here():
    top = [pages.ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
    found = [
        f"{pages.name(path)}:{number}: {line.strip()}"
        for path in [*SOURCES, *top]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if ELSEWHERE.search(line)
    ]
    assert not found


def test_headings_that_the_code_refers_to_exist():
    references = [
        (path, *found) for path in SOURCES for found in HEADING.findall(path.read_text("utf-8"))
    ]
    assert references, "docstrings refer to docs/mathematics.md"
    for path, page, anchor in references:
        assert anchor in pages.anchors(pages.ROOT / page), f"{pages.name(path)}: {page}#{anchor}"


def test_the_layers_of_the_architecture_page_are_those_that_are_checked():
    project = tomllib.loads((pages.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    checked = ["\n".join(c["layers"]) for c in contracts if c["type"] == "layers"]
    shown = [b.code.strip() for b in pages.blocks(pages.ROOT / "docs" / "architecture.md")]
    assert [layers for layers in checked if layers not in shown] == []


@pytest.mark.parametrize(("path", "folder"), [("README.md", "docs/"), ("docs/index.md", "")])
def test_the_way_in_leads_to_every_page(path, folder):
    linked = {link.partition("#")[0] for link in pages.links(pages.ROOT / path)}
    there = {page.name for page in (pages.ROOT / "docs").glob("*.md")} - {"index.md"}
    assert not {f"{folder}{name}" for name in there} - linked
