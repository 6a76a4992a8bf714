"""The documentation as these tests see it: pages, their blocks of code, headings and links."""

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.M | re.S)
_HEADING = re.compile(r"^#{1,6} (.+)$", re.M)
_LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


class Block(NamedTuple):
    """A fenced block of code."""

    page: Path
    line: int
    language: str
    code: str


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text[: found.start()].count("\n") + 1, found["language"], found["code"])
        for found in _FENCE.finditer(text)
    ]


def prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def spans(page: Path) -> list[str]:
    """Inline code."""
    return _SPAN.findall(prose(page))


def links(page: Path) -> list[str]:
    return _LINK.findall(prose(page))


def headings(page: Path) -> list[str]:
    return _HEADING.findall(prose(page))


def anchors(page: Path) -> list[str]:
    return [site_slug(heading) for heading in headings(page)]


def site_slug(heading: str) -> str:
    """The anchor of a heading on the site (Python-Markdown's)."""
    plain = unicodedata.normalize("NFKD", _text(heading)).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def host_slug(heading: str) -> str:
    """The anchor of a heading where a code host shows the file."""
    return re.sub(r"[^\w\- ]", "", _text(heading).strip().lower()).replace(" ", "-")


def commands(block: Block) -> Iterator[str]:
    """The commands of a block, one by one: continued lines joined."""
    for line in block.code.replace("\\\n", " ").splitlines():
        if line.strip() and not line.strip().startswith("#"):
            yield line.strip()


def _text(heading: str) -> str:
    return heading.replace("`", "").replace("\\", "")
