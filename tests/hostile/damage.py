"""Files as bad luck and bad will make them."""

from contextlib import contextmanager

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gossip.errors import UserError
from topologies import TopologyError

BINARY = (b"\0" * 4, b"\xff" * 4, b"\xff\xff\xff\x7f", b"\xff" * 7 + b"\x7f", b"\0" * 7 + b"\x80")
TEXT = (
    *(b"[", b"]", b"{", b"}", b'"', b"\\", b"<", b">", b"</", b"=", b":", b",", b".", b"\n", b"\0"),
    *(b"9" * 30, b"9" * 5000, b"-1", b"1e999", b"nan", b"null", b"true", b"[" * 2000, b"a.b.c="),
    *(b"\xff\xfe", b"\xf0\x9f\x92\xa3", b"os:system", b"../../x", b"{}", b"<a>", b"<!DOCTYPE x>"),
)


def fuzz(files):
    """The settings of a test that reads so many files."""
    return settings(
        max_examples=files,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@st.composite
def damaged(draw, whole, pieces=(*BINARY, *TEXT)):
    """The bytes `whole` after one to five accidents, or others instead of them."""
    if draw(st.integers(0, 19)) == 0:
        return draw(st.binary(max_size=200))
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(data)))
        accident = draw(st.sampled_from(["set", "write", "insert", "cut", "copy", "tear"]))
        if accident == "set":
            data[at : at + 1] = bytes([draw(st.integers(0, 255))])
        elif accident == "write":
            piece = draw(st.sampled_from(pieces))
            data[at : at + len(piece)] = piece
        elif accident == "insert":
            data[at:at] = draw(st.sampled_from(pieces))
        elif accident == "cut":
            del data[at : at + draw(st.integers(1, 40))]
        elif accident == "copy":
            start = draw(st.integers(0, len(data)))
            data[at:at] = data[start : start + draw(st.integers(1, 60))]
        else:
            del data[at:]
    return bytes(data)


def torn(whole, most=60):
    """`whole` torn at about `most` places: densely at both ends, where formats keep their words."""
    size = len(whole)
    places = {*range(min(size, most // 3)), *range(max(0, size - most // 3), size)}
    places |= set(range(0, size, max(1, size // (most // 3))))
    return [whole[:place] for place in sorted(places)]


@contextmanager
def one_sentence():
    """Whatever is wrong is a user's error of one line."""
    sentence = "nothing to complain of"
    try:
        yield
    except (UserError, TopologyError) as error:
        sentence = str(error)
    assert "\n" not in sentence
    assert len(sentence) > 10


def fuzzed(path, read, count, pieces=BINARY, most_torn=40):
    """Read the file at `path` damaged in so many ways, then torn; leave it whole."""
    whole = path.read_bytes()

    def once(data):
        path.write_bytes(data)
        with one_sentence():
            read()

    @fuzz(count)
    @given(data=damaged(whole, pieces))
    def check(data):
        once(data)

    check()
    for data in torn(whole, most_torn):
        once(data)
    path.write_bytes(whole)
