"""Whatever the documentation names exists: pages, headings, files, tests, modules and functions."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.docs import pages

GENERATED = (
    "runs/",
    "bench/",
    "step-",
    ".step-",
    ".trace",
    "checkpoint/",
    "RUN/",
    "dist/",
    "phase.",
)
"""Beginnings of names of files that a run writes, not the repository."""
SUFFIXES = (".py", ".md", ".toml", ".csv", ".txt", ".png", ".sh", ".yml")


def files() -> set[str]:
    """What is in the repository, by its path."""
    folders = ("gossip", "topologies", "experiments", "examples", "tests", "docs", "tools")
    inside = (path for folder in folders for path in (pages.ROOT / folder).rglob("*"))
    found = [*pages.ROOT.iterdir(), *inside]
    return {str(p.relative_to(pages.ROOT)) for p in found if "__pycache__" not in p.parts}


FILES = files()


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name)
def test_links_lead_to_files_and_headings(page):
    for link in pages.links(page):
        if re.match(r"https?:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor and target.name != "reference.md":
            assert anchor in pages.anchors(target), link


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name)
def test_an_anchor_is_the_same_on_the_site_and_on_a_code_host(page):
    for heading in pages.headings(page):
        assert pages.site_slug(heading) == pages.host_slug(heading), heading
    assert len(set(pages.anchors(page))) == len(pages.anchors(page))


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name)
def test_pages_of_the_site_link_to_pages_of_the_site_only(page):
    if page.parent.name == "docs":
        outside = [link for link in pages.links(page) if link.startswith("../")]
        assert not outside, "name the file in backticks: the site does not have it"


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name)
def test_files_that_are_named_exist(page):
    missing = [span for span in pages.spans(page) if is_file_name(span) and not exists(span)]
    assert not missing


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name)
def test_modules_and_functions_that_are_named_exist(page):
    for span in pages.spans(page):
        if re.fullmatch(r"(gossip|topologies|experiments)(\.\w+)+", span):
            assert resolves(span), span


def is_file_name(span: str) -> bool:
    if span.startswith(GENERATED) or re.search(r"[\s*<>=$,()]", span):
        return False
    path = span.partition("::")[0]
    return path.endswith(SUFFIXES) or path.endswith("/") or ("::" in span and bool(path))


def exists(span: str) -> bool:
    """A path from the root or from `tests/`, a folder, or a bare name found anywhere; its tests."""
    path, *inside = span.split("::")
    found = [name for name in (path.rstrip("/"), f"tests/{path.rstrip('/')}") if name in FILES]
    if not found and "/" not in path:
        found = [name for name in FILES if Path(name).name == path] or own(path)
    return bool(found) and all(
        re.search(rf"(def|class) {part}\b", (pages.ROOT / found[0]).read_text(encoding="utf-8"))
        for part in inside
    )


def own(path: str) -> list[str]:
    """Names of files that are the reader's or a run's."""
    names = ("train.py", "run.toml", "config.toml", "figure.png", "page.html", "stacks.txt",
             "gossip-report.png")  # fmt: skip
    return [path] if path in names else []


def resolves(dotted: str) -> bool:
    """Whether a name is a module or something in one."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False
