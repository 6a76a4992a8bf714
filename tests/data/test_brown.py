"""The parser of the Brown corpus, on made-up documents."""

import numpy as np
import pytest

from gossip.data import CorruptDataError, brown


def document(text):
    return "\n\n\t".join(f"{word}/nn" for word in text.split()).encode()


def test_words_are_lower_case_without_tags_and_may_hold_a_slash():
    found = brown.words(b"\n\n\tThe/at and/or/cc Atlanta's/np$ ``/`` ./.\n", "ca01")
    assert found == ["the", "and/or", "atlanta's", "``", "."]


@pytest.mark.parametrize("text", [b"The/at jury", b"The/at /nn", b"The/at jury/", b"caf\xe9/nn"])
def test_what_is_no_document_is_named(text):
    with pytest.raises(CorruptDataError, match="ca01: "):
        brown.words(text, "ca01")


def test_equally_frequent_words_are_in_the_order_of_their_letters():
    assert brown.most_frequent([["b", "a", "c"], ["c", "d"]], 3) == ["c", "a", "b"]


def test_every_tenth_document_is_test_and_its_words_are_not_in_the_vocabulary():
    documents = [document("a a b b b") for _ in range(20)]
    documents[9], documents[19] = document("z z z z a"), document("b A b z")
    inputs, labels, test_inputs, test_labels = brown.arrays(documents, 10, 2)
    assert inputs.tolist() == [[2, 2], [1, 1]] * 18  # b is more frequent than a
    assert labels.tolist() == [[2, 1], [1, 1]] * 18
    assert test_inputs.tolist() == [[0, 0], [0, 0], [1, 2]]  # the last word has no successor
    assert test_labels.tolist() == [[0, 0], [0, 2], [2, 1]]
    assert inputs.dtype == test_inputs.dtype == np.int32
    assert labels.dtype == test_labels.dtype == np.int64


def test_windows_neither_overlap_nor_reach_over_the_end_of_a_document():
    letters = "abcdefghijklmnopqrs"
    documents = [document(" ".join(letters[k : k + 9])) for k in range(10)]
    inputs, labels, _, _ = brown.arrays(documents, 30, 3)
    assert len(inputs) == 9 * 2
    words = dict(enumerate(brown.most_frequent([list(letters[k : k + 9]) for k in range(9)], 29)))
    text = ["".join(words[i - 1] for i in window) for window in inputs]
    assert text[:4] == ["abc", "def", "bcd", "efg"]
    assert ["".join(words[i - 1] for i in window) for window in labels][:2] == ["bcd", "efg"]


def test_words_beyond_the_vocabulary_are_unknown():
    inputs, _, _, _ = brown.arrays([document("a a b c a a")] * 10, 2, 5)
    assert inputs[0].tolist() == [1, 1, brown.UNKNOWN, brown.UNKNOWN, 1]


def test_there_are_500_documents_in_their_sections():
    assert len(set(brown.DOCUMENTS)) == 500
    assert (brown.DOCUMENTS[0], brown.DOCUMENTS[44], brown.DOCUMENTS[-1]) == (
        "ca01",
        "cb01",
        "cr09",
    )


def test_bytes_are_those_of_the_words_with_spaces_between():
    documents = [document("Ab c .")] * 9 + [document("x y z q")]
    inputs, labels, test_inputs, _ = brown.of_bytes(documents, 3)
    assert inputs.astype(np.uint8).tobytes() == b"ab " * 9
    assert labels.astype(np.uint8).tobytes() == b"b c" * 9
    assert test_inputs.astype(np.uint8).tobytes() == b"x y z "


def test_words_of_letters_are_labelled_backwards_and_every_tenth_is_test():
    documents = [document("The abc's ab . a Tea-pot no zz 1961 abcd")] * 2
    inputs, labels, test_inputs, test_labels = brown.backwards(documents, 3)
    assert inputs.tolist() == [[0, 1, 2], [0, 14, 15], [20, 8, 5], [0, 26, 26]]  # ab no the zz
    assert labels.tolist() == [[2, 1, 0], [15, 14, 0], [5, 8, 20], [26, 26, 0]]
    assert (inputs.dtype, labels.dtype) == (np.int32, np.int64)
    assert len(test_inputs) == len(test_labels) == 0
    many = [document(" ".join(a + b for a in "abcdefghij" for b in "xy"))]
    assert brown.backwards(many)[2].tolist() == [[0] * 10 + [5, 25], [0] * 10 + [10, 25]]
