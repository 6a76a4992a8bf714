"""What a command prints: lost where it cannot be written, and never the reason why a command fails.

Who reads may leave (`| head -1`), the disk behind a log be full, a stream be closed (`2>&-`), its
encoding not know our letters (`PYTHONIOENCODING=ascii`). Nobody has to read it for it to be true.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

STANDARD = (1, 2)
"""File numbers of stdout and stderr."""


class Lossy:
    """A stream to which any text can be written, whatever becomes of it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        """All else is the stream's own."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write what can be, with ? for a letter that the encoding does not have."""
        with suppress(OSError, ValueError):  # ValueError: it is closed
            try:
                self._stream.write(text)
            except UnicodeEncodeError:
                encoding = self._stream.encoding
                self._stream.write(text.encode(encoding, "replace").decode(encoding))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write one after the other."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush, if that is possible."""
        with suppress(OSError, ValueError):
            self._stream.flush()


@contextmanager
def lossy_output() -> Iterator[None]:
    """In this block, or decorated function, stdout and stderr take everything; see the module."""
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as null:  # noqa: PTH123 - no path
        streams = [stream or null for stream in before]
        sys.stdout, sys.stderr = (cast(TextIO, Lossy(stream)) for stream in streams)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before
            for stream in streams:
                _drop_the_rest(stream)


def _drop_the_rest(stream: TextIO) -> None:
    """Do not let Python fail at its end, when it flushes what could not be written."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            if stream.fileno() in STANDARD:
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, stream.fileno())
                os.close(null)
