"""Who is named for a paper: the same authors wherever it is cited, and the right ones."""

import re
from functools import cache
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
    "SC 2019": "You",
    "WWW 2022": "Ko",
    "arXiv 1607.03218": "Nedic",
    "arXiv 1608.03983": "Loshchilov",
    "arXiv 1610.02132": "Alistarh",
    "arXiv 1702.05122": "Yuan",
    "arXiv 1706.02677": "Goyal",
    "arXiv 1708.03888": "You",
    "arXiv 1710.06952": "Lian",
    "arXiv 1803.06443": "Tang",
    "arXiv 1803.07068": "Tang",
    "arXiv 1808.07217": "Lin",
    "arXiv 1811.10792": "Assran",
    "arXiv 1812.06162": "McCandlish",
    "arXiv 1901.09109": "Nazari",
    "arXiv 1902.00340": "Koloskova",
    "arXiv 1904.00962": "You",
    "arXiv 1905.03817": "Yu",
    "arXiv 1905.13727": "Vogels",
    "arXiv 1907.07346": "Tang",
    "arXiv 1907.08610": "Zhang",
    "arXiv 1907.09356": "Koloskova",
    "arXiv 1910.00643": "Wang",
    "arXiv 1910.08222": "Sievert",
    "arXiv 2007.05105": "Johnson",
    "arXiv 2008.01425": "Vogels",
    "arXiv 2102.04761": "Lin",
    "arXiv 2104.11981": "Yuan",
    "arXiv 2106.05203": "Richtarik",
    "arXiv 2110.04175": "Vogels",
    "arXiv 2112.01433": "Zhang",
    "arXiv 2201.13320": "Zhao",
    "arXiv 2209.15505": "Takezawa",
    "arXiv 2311.08105": "Douillard",
    "arXiv 2411.19870": "Peng",
    "arXiv 2501.18512": "Douillard",
    "arXiv 2501.19082": "Hu",
    "arXiv 2502.12996": "Kale",
    "arXiv 2502.16982": "Liu",
    "arXiv 2506.10911": "Kolehmainen",
    "arXiv 2508.15706": "Sarfi",
}
"""By what stands for the work in a citation: its number or its venue."""
NAMED = re.compile(
    r"\b([A-Z][A-Za-z]+)(?: et al\.|(?:, [A-Z][a-z]+)+, |(?:, [A-Z][a-z]+)* and [A-Z][a-z]+, )"
)
ENDS = "|".join([r"(?<!al)\. ", "; ", *map(re.escape, FIRST_AUTHORS)])


@cache
def in_one_line(path):
    return re.sub(r"[\s#]+", " ", path.read_text(encoding="utf-8"))


def test_every_number_that_is_cited_is_listed_with_its_first_author():
    cited = {
        f"arXiv {number}": str(path.relative_to(ROOT))
        for path in TEXTS
        for number in re.findall(r"arXiv[: ]+(\d{4}\.\d{4,5})", in_one_line(path))
    }
    assert {work: path for work, path in cited.items() if work not in FIRST_AUTHORS} == {}


@pytest.mark.parametrize("work", FIRST_AUTHORS)
def test_a_paper_is_cited_by_its_authors(work):
    found = {}
    for path in TEXTS:
        text = in_one_line(path)
        for match in re.finditer(re.escape(work), text):
            # Names belong to this work if neither a sentence nor another work ends in between.
            before = re.split(ENDS, text[: match.start()][-250:])[-1]
            if names := NAMED.findall(before):
                found[f"{path.relative_to(ROOT)}: {before}{work}"] = names[-1]
    assert found
    assert {k: v for k, v in found.items() if v != FIRST_AUTHORS[work]} == {}
