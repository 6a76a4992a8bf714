"""Functions of users' own that return a data set, or something else."""

# ruff: noqa: NPY002 - users draw from the global generator
import numpy as np
import torch

from gossip.data import Dataset, Scale

RNG = np.random.default_rng(0)
X = RNG.random((24, 6)).astype(np.float32)
Y = RNG.integers(0, 3, 24)


def halves(inputs, labels):
    return inputs, labels, inputs[:9], labels[:9]


def of_scale(**options):
    return Dataset("mine", "here", "", 3, *halves(X, Y), Scale(**options))


# What is taken.


def a_tuple():
    return halves(X, Y)


def a_list():
    return [part.tolist() for part in halves(X, Y)]


def tensors():
    return halves(torch.from_numpy(X), torch.from_numpy(Y))


def big_endian():
    return halves(X.astype(">f4"), Y.astype(">i8"))


def backwards():
    return X[::-1][::-1], Y[::-1][::-1], X[8::-1][::-1], Y[8::-1][::-1]


def columns_first():
    return halves(np.asfortranarray(X), Y)


def more_classes_than_it_says():
    return Dataset("mine", "here", "", 2, *halves(X, Y), Scale(0.0, 1.0, 0.5, 0.3))


# What draws.


def numpy_draws():
    return halves(np.random.rand(24, 6), Y)


def torch_draws():
    return halves(torch.rand(24, 6), Y)


# What is refused.


def dictionary():
    return dict(enumerate(halves(X, Y)))


def three():
    return halves(X, Y)[:3]


def with_gradient():
    return halves(torch.from_numpy(X).requires_grad_(), Y)


def bfloat16():
    return halves(torch.from_numpy(X).bfloat16(), Y)


def ragged():
    return [[1.0], [1.0, 2.0]], [0, 1], [[1.0]], [0]


def masked():
    return halves(np.ma.masked_array(X, X > 0.9), Y)


def without_numbers():
    return halves(X[:, :0], Y)


def nobody():
    return halves(X[:0], Y[:0])


def nan():
    return halves(np.where(X > 0.9, np.nan, X), Y)


def labels_below_zero():
    return halves(X, Y - 1)


def labels_far_away():
    return halves(X, Y + 10**9)


def float_labels():
    return halves(X, np.where(Y > 0, np.nan, Y))


def text_labels():
    return halves(X, Y.astype(str))


def raising():
    raise OSError("disk\non fire")


def exiting():
    raise SystemExit(2)


def with_argument(path):
    return halves(X, Y)


def arrays_of_none():
    return None, None, None, None


def a_dataset_of_lists():
    return Dataset("mine", "here", "", 3, X.tolist(), Y, None, Y[:9], Scale())


def no_span():
    return of_scale(low=1.0, high=1.0)


def scale_of_another_shape():
    return of_scale(std=np.ones(5))


def scale_of_text():
    return of_scale(std="wide")


TAKEN = (a_tuple, a_list, tensors, big_endian, backwards, columns_first, more_classes_than_it_says)
DRAWN = (numpy_draws, torch_draws)
REFUSED = {
    dictionary: "returned dict: return a gossip.data.Dataset or a tuple",
    three: "returned tuple of 3",
    with_gradient: "RuntimeError: Can't call numpy() on Tensor that requires grad",
    bfloat16: "inputs are Tensor, which NumPy makes no array of",
    ragged: "inputs are list, which NumPy makes no array of",
    masked: "inputs are masked in places",
    without_numbers: "inputs are float32 24x0",
    nobody: "with the same N of at least 1",
    nan: "floats that are all finite",
    labels_below_zero: "labels are int64 from -1 to 1",
    labels_far_away: "labels are int64 from 1000000000 to",
    float_labels: "labels are float64, and not all finite",
    text_labels: "give integers that count from 0",
    raising: "cannot be made: OSError: disk on fire (odd_functions.py, line",
    exiting: "cannot be made: SystemExit: 2",
    with_argument: "cannot be called without arguments",
    arrays_of_none: "inputs are object",
    a_dataset_of_lists: "inputs are object",
    no_span: "low < high and std > 0",
    scale_of_another_shape: "does not fit inputs of shape [6]",
    scale_of_text: "does not fit inputs of shape [6]",
}
"""Function -> a part of the sentence that says why."""
