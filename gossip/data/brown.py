"""The Brown corpus as token ids: windows for language models of words or bytes, words backwards.

A document is a text of word/tag pairs between spaces. Words are taken in lower case, without
their tags; punctuation marks are words as any other.
"""

from collections import Counter
from functools import partial
from itertools import chain

import numpy as np

from gossip.data.dataset import Arrays, CorruptDataError

UNKNOWN = 0
"""Id of every word that is not in the vocabulary."""
VOCABULARY = 10_000
"""Number of ids, `UNKNOWN` among them."""
STEPS, BYTES, LETTERS = 20, 64, 12
"""Length T of a window of words, of one of bytes, and of the longest word spelled backwards."""
_SECTIONS = {"a": 44, "b": 27, "c": 17, "d": 17, "e": 36, "f": 48, "g": 75, "h": 30, "j": 80}
_SECTIONS |= {"k": 29, "l": 24, "m": 6, "n": 29, "p": 29, "r": 9}
DOCUMENTS = tuple(f"c{s}{k:02d}" for s, count in _SECTIONS.items() for k in range(1, count + 1))
"""Names of the 500 documents, section by section: ca01 is the first of the news."""
PRESS = sum(_SECTIONS[section] for section in "abc")
"""How many of them are of the press: news, editorials and reviews, the first ones."""


def arrays(documents: list[bytes], vocabulary: int = VOCABULARY, steps: int = STEPS) -> Arrays:
    """Windows of ids, each labelled with the ids one word further on.

    Every tenth document is test; the vocabulary is that of the others: their most frequent words,
    words of equal frequency in the order of their code points. Windows do not overlap and do not
    reach over the end of a document; what is left of it is dropped.

    Args:
        documents: contents, in the order of `DOCUMENTS`.
        vocabulary: number of ids, `UNKNOWN` included.
        steps: T.

    Returns:
        Inputs [N, T] int32 and labels [N, T] int64, for training and test.

    Raises:
        CorruptDataError: a document is not what it should be.
    """
    texts = [words(document, name) for document, name in zip(documents, DOCUMENTS, strict=False)]
    test = texts[9::10]
    train = [text for k, text in enumerate(texts) if k % 10 != 9]
    ids = {word: 1 + k for k, word in enumerate(most_frequent(train, vocabulary - 1))}
    known = partial(_known, ids)
    return (*_windows([*map(known, train)], steps), *_windows([*map(known, test)], steps))


def _known(ids: dict[str, int], text: list[str]) -> np.ndarray:
    return np.array([ids.get(word, UNKNOWN) for word in text], np.int32)


def words(document: bytes, where: str) -> list[str]:
    """The words of a document in lower case, without their tags.

    Raises:
        CorruptDataError: not text, or not word/tag pairs.
    """
    try:
        # A word may hold a slash itself (and/or), a tag none.
        pairs = [pair.rpartition("/") for pair in document.decode("ascii").split()]
    except UnicodeDecodeError as error:
        raise CorruptDataError(f"{where}: not plain text ({error})") from error
    for word, slash, tag in pairs:
        if not (word and slash and tag):
            raise CorruptDataError(f"{where}: {word + slash + tag!r} is not word/tag")
    return [word.lower() for word, _, _ in pairs]


def most_frequent(texts: list[list[str]], count: int) -> list[str]:
    """The `count` most frequent words, the most frequent first, then in alphabetical order."""
    counts = Counter(chain.from_iterable(texts))
    return sorted(counts, key=lambda word: (-counts[word], word))[:count]


def of_bytes(documents: list[bytes], steps: int = BYTES) -> Arrays:
    """Windows of bytes, each labelled with the bytes one further on; else as `arrays`.

    Of the press alone, a megabyte. The text is that of `words` with a space between: lower case,
    and punctuation marks between spaces, too. An id is the byte itself.
    """
    texts = [
        np.frombuffer(" ".join(words(document, name)).encode("ascii"), np.uint8).astype(np.int32)
        for document, name in zip(documents[:PRESS], DOCUMENTS, strict=False)
    ]
    train = [text for k, text in enumerate(texts) if k % 10 != 9]
    return (*_windows(train, steps), *_windows(texts[9::10], steps))


def backwards(documents: list[bytes], steps: int = LETTERS) -> Arrays:
    """Words letter by letter, each labelled with its letters backwards: a toy for seq2seq models.

    All different words of two to `steps` letters a-z, in alphabetical order; every tenth is test.
    An id is 1 for a ... 26 for z, and 0 where there is no letter, before the word and behind the
    label: "the" is [0 ... 0, 20, 8, 5], and its label [5, 8, 20, 0 ... 0].

    Args:
        documents: contents, in the order of `DOCUMENTS`.
        steps: T.

    Returns:
        Inputs [N, T] int32 and labels [N, T] int64, for training and test.

    Raises:
        CorruptDataError: a document is not what it should be.
    """
    pairs = zip(documents, DOCUMENTS, strict=False)
    found = {word for document, name in pairs for word in words(document, name)}
    chosen = sorted(w for w in found if w.isalpha() and 2 <= len(w) <= steps)
    inputs = np.array([list(word.rjust(steps, "`").encode()) for word in chosen], np.int32)
    inputs -= ord("`")  # the character before a
    labels = inputs[:, ::-1].astype(np.int64)
    is_test = np.arange(len(chosen)) % 10 == 9
    return inputs[~is_test], labels[~is_test], inputs[is_test], labels[is_test]


def _windows(texts: list[np.ndarray], steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels of the ids of texts."""
    inputs, labels = [], []
    for tokens in texts:
        count = max(0, len(tokens) - 1) // steps
        inputs.append(tokens[: count * steps].reshape(count, steps))
        labels.append(tokens[1 : count * steps + 1].reshape(count, steps))
    return np.concatenate(inputs), np.concatenate(labels).astype(np.int64)
