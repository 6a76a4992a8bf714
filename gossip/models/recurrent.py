"""Long short-term memory: rows of an image, frames of sound, words, words spelled backwards."""

from torch import Tensor, nn

from gossip.errors import UserError
from gossip.models.inputs import refuse_numbers, token_steps


class RowReader(nn.Module):
    """An LSTM over a sequence and a linear layer on its last output."""

    def __init__(self, features: int, hidden: int, num_classes: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, batch_first=True)
        self.linear = nn.Linear(hidden, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, features] -> logits [B, num_classes]."""
        outputs, _ = self.lstm(x)
        return self.linear(outputs[:, -1])


class FrameModel(nn.Module):
    """LSTM layers that read both ways; of the middle step, a narrow linear layer and the logits."""

    def __init__(self, features: int, width: int, depth: int, num_classes: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, width, depth, batch_first=True, bidirectional=True)
        narrow = max(1, width // 2)
        self.narrow, self.linear = nn.Linear(2 * width, narrow), nn.Linear(narrow, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, features] -> logits [B, num_classes] of step T // 2, which sees all T."""
        outputs, _ = self.lstm(x)
        return self.linear(self.narrow(outputs[:, x.shape[1] // 2]))


class WordModel(nn.Module):
    """Embedding, LSTM layers, and at each position a linear layer over the vocabulary."""

    def __init__(self, vocabulary: int, width: int, depth: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, num_layers=depth, batch_first=True)
        self.linear = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        """Token ids [B, T] -> logits of the next token [B, T, vocabulary]."""
        refuse_numbers("word-lstm", tokens, "brown")
        outputs, _ = self.lstm(self.embedding(tokens))
        return self.linear(outputs)


class EncoderDecoder(nn.Module):
    """An LSTM that reads a sequence, and one that writes another, from its last state."""

    def __init__(self, vocabulary: int, steps: int, width: int) -> None:
        super().__init__()
        self.embedding, self.places = nn.Embedding(vocabulary, width), nn.Embedding(steps, width)
        self.encoder = nn.LSTM(width, width, batch_first=True)
        self.decoder = nn.LSTM(width, width, batch_first=True)
        self.linear = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        """Token ids [B, T] -> logits of what is written [B, T, vocabulary]."""
        refuse_numbers("seq2seq", tokens, "brown-backwards")
        _, state = self.encoder(self.embedding(tokens))
        written, _ = self.decoder(self.places.weight.expand(len(tokens), -1, -1), state)
        return self.linear(written)


def lstm(input_shape: tuple[int, ...], num_classes: int, *, hidden: int = 128) -> nn.Module:
    """The MNIST-LSTM of the DATE study: an image is a sequence of its rows, 28 steps of 28.

    Args:
        input_shape: [T, features], the state starting at zero for each sequence.
        num_classes: number of outputs.
        hidden: size of the LSTM's state.

    Raises:
        UserError: the inputs are no sequences.

    Reference: Hochreiter, Schmidhuber, "Long short-term memory", 1997.
    """
    return RowReader(_features("lstm", input_shape), hidden, num_classes)


def bilstm(
    input_shape: tuple[int, ...], num_classes: int, *, width: int = 64, depth: int = 2
) -> nn.Module:
    """An acoustic model: bidirectional LSTM layers, a narrow linear layer, logits of the middle.

    With width=512 and depth=6 the model of Switchboard in Zhang et al.: on 21 frames of 260
    features and 32,000 states of phones 43,154,944 parameters, 165 MiB. There each of the 21 frames
    has a label; here the window has one, that of frame T // 2.

    Args:
        input_shape: [T, features], the state starting at zero at both ends.
        num_classes: number of outputs.
        width: units of each layer in each direction; the narrow layer has half as many.
        depth: number of LSTM layers.

    Raises:
        UserError: the inputs are no sequences.

    Reference: Graves, Schmidhuber, "Framewise phoneme classification with bidirectional LSTM and
    other neural network architectures", 2005; Zhang et al., "Loss landscape dependent
    self-adjusting learning rates in decentralized stochastic gradient descent", 2021.
    """
    return FrameModel(_features("bilstm", input_shape), width, depth, num_classes)


def _features(model: str, input_shape: tuple[int, ...]) -> int:
    """How many numbers a step of inputs [T, features] has.

    Raises:
        UserError: the inputs are no sequences.
    """
    if len(input_shape) != 2:
        raise UserError(
            f"{model} needs sequences ([steps, features], an image without channels being one), "
            f"got inputs of shape {list(input_shape)}"
        )
    return input_shape[1]


def word_lstm(
    input_shape: tuple[int, ...], num_classes: int, *, width: int = 200, depth: int = 2
) -> nn.Module:
    """A language model of words, the "small" one usual on PTB: two LSTM layers of 200.

    Its state starts at zero for each window: it is not carried from one window to the next,
    which the usual numbers on PTB do.

    Args:
        input_shape: [T], windows of T token ids.
        num_classes: size of the vocabulary.
        width: of the embedding and of each LSTM layer.
        depth: number of LSTM layers.

    Raises:
        UserError: the inputs are no windows of tokens.

    Reference: Zaremba, Sutskever, Vinyals, "Recurrent neural network regularization", 2014; its
    weights start evenly in [-0.1, 0.1], these as PyTorch draws them.
    """
    token_steps("word-lstm", input_shape)
    return WordModel(num_classes, width, depth)


def seq2seq(input_shape: tuple[int, ...], num_classes: int, *, width: int = 128) -> nn.Module:
    """A sequence-to-sequence model: one LSTM reads, another writes as many tokens.

    The second begins with the last state of the first, which is all that it knows of the sequence.
    It reads a vector of its own for each place, and not the token that it has written before, as
    the usual decoder does: a model of ours sees inputs alone, in training and in evaluation.

    Args:
        input_shape: [T], sequences of T token ids.
        num_classes: number of ids, those that are read and those that are written.
        width: of the embeddings and of both LSTMs.

    Raises:
        UserError: the inputs are no sequences of tokens.

    Reference: Sutskever, Vinyals, Le, "Sequence to sequence learning with neural networks", 2014.
    """
    return EncoderDecoder(num_classes, token_steps("seq2seq", input_shape), width)
