"""Texts as any editor may have left them: with a byte order mark, with any line ends."""

import codecs

WIDE = {
    codecs.BOM_UTF32_LE: "UTF-32",  # before UTF-16, of which it begins with the mark
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
"""Encodings that tell by their mark that they are not UTF-8."""
MARK = "\ufeff"
"""The byte order mark, also inside a text: where files that begin with it were put together."""


def decoded(data: bytes) -> str:
    r"""The text in UTF-8 bytes, without marks, lines ended by \n.

    Raises:
        ValueError: it is in another encoding.
    """
    for mark, encoding in WIDE.items():
        if data.startswith(mark):
            raise ValueError(f"it is {encoding}, where UTF-8 is read")
    if b"\0" in data:
        raise ValueError("it has NUL bytes, as UTF-16 does, where UTF-8 is read")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8, at byte {error.start}") from None
    return text.replace(MARK, "").replace("\r\n", "\n").replace("\r", "\n")


def table_lines(text: str) -> list[str]:
    """The lines of a table of numbers that have any; # begins a comment."""
    bare = (line.partition("#")[0].strip() for line in text.split("\n"))
    return [line for line in bare if line]
