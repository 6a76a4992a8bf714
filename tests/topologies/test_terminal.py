"""What is printed is lost where it cannot be written, and nothing fails of it."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from topologies.terminal import lossy_output

LETTERS = "σ_w² ≤ ½ Δ\n"
"""None of them in ASCII; two of six not in Latin-1."""


@pytest.fixture
def streams(monkeypatch):
    """Takes the streams that are to be stdout and stderr."""

    def put(stdout, stderr=None):
        monkeypatch.setattr(sys, "stdout", stdout)
        monkeypatch.setattr(sys, "stderr", stderr or io.StringIO())

    return put


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("ascii", "?_w? ? ? ?\n"),
        ("latin-1", "?_w² ? ½ ?\n"),
        ("utf-8", LETTERS),
        ("cp437", "σ_w² ≤ ½ ?\n"),
    ],
)
def test_a_letter_that_the_encoding_does_not_have_is_a_question_mark(streams, encoding, expected):
    stdout = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="\n")
    streams(stdout)
    with lossy_output():
        print(LETTERS, end="")
    assert stdout.buffer.getvalue().decode(encoding) == expected
    assert sys.stdout is stdout


def test_a_file_name_that_is_no_text_is_printed(streams):
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n")
    streams(stdout)
    with lossy_output():
        print("wrote", os.fsdecode(b"r\xfcn"))
    assert stdout.buffer.getvalue() == b"wrote r?n\n"


def test_nobody_reads_any_more(streams):
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", buffering=1) as stdout:
        os.close(reader)
        streams(stdout, stdout)
        with lossy_output():
            for k in range(10_000):
                print("line", k, file=sys.stderr if k % 2 else sys.stdout)
        with pytest.raises(BrokenPipeError):
            os.write(writer, b"still no reader")
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, writer)  # what is left in the buffer can be written at last
        os.close(null)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk to write to")
def test_the_disk_is_full(streams):
    with Path("/dev/full").open("w") as stdout:
        streams(stdout)
        with lossy_output():
            print("x" * 100_000, flush=True)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stdout.fileno())
        os.close(null)


def test_no_stream_at_all(streams):
    streams(None)
    sys.stderr = None
    with lossy_output():
        assert not sys.stdout.isatty()
        print("to nobody")
        print("to nobody", file=sys.stderr)
    assert sys.stdout is None


def test_a_closed_stream(streams):
    stdout = io.StringIO()
    stdout.close()
    streams(stdout)
    with lossy_output():
        print("to nobody", flush=True)


@pytest.mark.parametrize("output", ["> /dev/full", ">&- 2>&-", "| true"])
def test_python_ends_as_if_all_had_been_read(output):
    """It flushes stdout at its end, and its exit code says if that has failed."""
    program = (
        "import topologies.terminal as t\n"
        "with t.lossy_output():\n"
        "    [print('line', k) for k in range(20_000)]\n"
    )
    command = f"set -o pipefail; '{sys.executable}' -c \"$PROGRAM\" {output}"
    environment = {**os.environ, "PROGRAM": program}
    done = subprocess.run(
        ["bash", "-c", command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
