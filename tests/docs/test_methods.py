"""The table of the methods page is made from the table of algorithms."""

from gossip.algorithms.overview import table
from gossip.compress import OPERATORS
from tests.docs import pages

PAGE = (pages.ROOT / "docs" / "methods.md").read_text(encoding="utf-8")


def test_the_page_has_the_table_as_it_is_now():
    """`python -m gossip.algorithms.overview` prints it."""
    assert table() in PAGE


def test_every_compressor_is_on_the_page():
    assert [name for name in OPERATORS if f"| `{name}` |" not in PAGE] == []
