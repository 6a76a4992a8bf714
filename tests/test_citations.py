"""Who is named for a paper: the same authors wherever it is cited, and the right ones."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXTS = [
    path
    for folder in ("gossip", "topologies", "experiments", "docs")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".md")
]
FIRST_AUTHORS = {
    "arXiv 1608.03983": "Loshchilov",
    "arXiv 1706.02677": "Goyal",
    "arXiv 1708.03888": "You",
    "arXiv 1710.06952": "Lian",
    "arXiv 1904.00962": "You",
    "arXiv 2007.05105": "Johnson",
    "arXiv 2112.01433": "Zhang",
    "SC 2019": "You",
    "WWW 2022": "Ko",
}
"""By what stands for the work in a citation: its number or its venue."""
NAMED = re.compile(
    r"\b([A-Z][a-z]+)(?: et al\.|(?:, [A-Z][a-z]+)+, |(?:, [A-Z][a-z]+)* and [A-Z][a-z]+, )"
)
ENDS = "|".join([r"(?<!al)\. ", "; ", *map(re.escape, FIRST_AUTHORS)])


@pytest.mark.parametrize("work", FIRST_AUTHORS)
def test_a_paper_is_cited_by_its_authors(work):
    found = {}
    for path in TEXTS:
        text = re.sub(r"[\s#]+", " ", path.read_text(encoding="utf-8"))
        for match in re.finditer(re.escape(work), text):
            # Names belong to this work if neither a sentence nor another work ends in between.
            before = re.split(ENDS, text[: match.start()][-250:])[-1]
            if names := NAMED.findall(before):
                found[f"{path.relative_to(ROOT)}: {before}{work}"] = names[-1]
    assert found
    assert {k: v for k, v in found.items() if v != FIRST_AUTHORS[work]} == {}
