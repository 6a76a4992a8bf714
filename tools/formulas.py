"""Formulas of docstrings as MathML, for the reference on the site; they stay text in the code.

Docstrings have them as `.. math::` blocks and :math:`...`, in LaTeX. Browsers draw MathML by
themselves, so that the site needs no script and no network.
"""

import re
import textwrap
from typing import Any

import griffe
from latex2mathml.converter import convert

BLOCK = re.compile(r"^(?P<indent> *)\.\. math::(?P<rest>.*(?:\n(?:(?P=indent) +.*)?)*)", re.M)
"""A directive with its lines: those indented more than itself, and empty ones between."""
INLINE = re.compile(r":math:`([^`]+)`")
LITERAL = re.compile(r"(?<=\S)::$", re.M)
"""What announces indented code in reStructuredText; in Markdown a colon does."""


class Formulas(griffe.Extension):
    """Rewrites every docstring before it is rendered."""

    def on_object(self, *, obj: griffe.Object, **options: Any) -> None:
        """Called once for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)


def rewritten(docstring: str) -> str:
    """A docstring in Markdown, its formulas as MathML."""
    text = BLOCK.sub(_block, docstring)
    text = INLINE.sub(lambda found: convert(found[1]), text)
    return LITERAL.sub(":", text)


def _block(found: re.Match[str]) -> str:
    """A formula by itself, one blank line on either side, as far in as its directive was."""
    formula = " ".join(textwrap.dedent(found["rest"]).split())
    return f"\n{found['indent']}{convert(formula, display='block')}\n\n"
