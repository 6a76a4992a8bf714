"""The Brown corpus as windows of token ids, for language models of words.

A document is a text of word/tag pairs between spaces. Words are taken in lower case, without
their tags; punctuation marks are words as any other.
"""

from collections import Counter
from itertools import chain

import numpy as np

from gossip.data.dataset import Arrays, CorruptDataError

UNKNOWN = 0
"""Id of every word that is not in the vocabulary."""
VOCABULARY = 10_000
"""Number of ids, `UNKNOWN` among them."""
STEPS = 20
"""Length T of a window."""
_SECTIONS = {"a": 44, "b": 27, "c": 17, "d": 17, "e": 36, "f": 48, "g": 75, "h": 30, "j": 80}
_SECTIONS |= {"k": 29, "l": 24, "m": 6, "n": 29, "p": 29, "r": 9}
DOCUMENTS = tuple(f"c{s}{k:02d}" for s, count in _SECTIONS.items() for k in range(1, count + 1))
"""Names of the 500 documents, section by section: ca01 is the first of the news."""


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
    return (*_windows(train, ids, steps), *_windows(test, ids, steps))


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


def _windows(
    texts: list[list[str]], ids: dict[str, int], steps: int
) -> tuple[np.ndarray, np.ndarray]:
    inputs, labels = [], []
    for text in texts:
        tokens = np.array([ids.get(word, UNKNOWN) for word in text], np.int32)
        count = max(0, len(tokens) - 1) // steps
        inputs.append(tokens[: count * steps].reshape(count, steps))
        labels.append(tokens[1 : count * steps + 1].reshape(count, steps))
    return np.concatenate(inputs), np.concatenate(labels).astype(np.int64)
