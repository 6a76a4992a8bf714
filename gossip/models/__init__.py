"""Models by name: builders (input_shape, num_classes, **options) -> torch.nn.Module."""

from collections.abc import Callable
from functools import partial

from torch import nn

from gossip.models.attention import transformer
from gossip.models.convolutional import cnn, lenet
from gossip.models.deep import alexnet, vgg
from gossip.models.dense import mlp, softmax
from gossip.models.inputs import ACTIVATIONS
from gossip.models.inverted import efficientnet, mobilenet
from gossip.models.recurrent import bilstm, lstm, seq2seq, word_lstm
from gossip.models.residual import resnet18, resnet50

__all__ = ["ACTIVATIONS", "MODELS", "TOKEN_MODELS", "lenet", "mlp", "softmax"]

MODELS: dict[str, Callable[..., nn.Module]] = {
    "mlp": mlp,
    "lenet": lenet,
    "softmax": softmax,
    "cnn": cnn,
    "cnn-bn": partial(cnn, batch_norm=True),
    "alexnet": alexnet,
    "vgg": vgg,
    "vgg-bn": partial(vgg, batch_norm=True),
    "resnet18": resnet18,
    "resnet50": resnet50,
    "mobilenet": mobilenet,
    "efficientnet": efficientnet,
    "lstm": lstm,
    "bilstm": bilstm,
    "word-lstm": word_lstm,
    "seq2seq": seq2seq,
    "transformer": transformer,
}
"""What `--model` offers. A new model is a function in a file of this package and its name here.

All start as PyTorch initialises them by default, but for those in `deep.py`, which says why.
"""

TOKEN_MODELS = ("word-lstm", "seq2seq", "transformer")
"""Those that look token ids up; the others take numbers."""
