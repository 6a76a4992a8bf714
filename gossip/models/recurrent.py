"""Long short-term memory: images read row by row, and words one after the other."""

from torch import Tensor, nn

from gossip.errors import UserError


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


class WordModel(nn.Module):
    """Embedding, LSTM layers, and at each position a linear layer over the vocabulary."""

    def __init__(self, vocabulary: int, width: int, depth: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, num_layers=depth, batch_first=True)
        self.linear = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        """Token ids [B, T] -> logits of the next token [B, T, vocabulary]."""
        if tokens.is_floating_point():
            raise UserError(
                f"word-lstm needs token ids (integers), got inputs of type {tokens.dtype}: use a "
                "dataset of tokens, for example brown"
            )
        outputs, _ = self.lstm(self.embedding(tokens))
        return self.linear(outputs)


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
    if len(input_shape) != 2:
        raise UserError(
            "lstm needs sequences ([steps, features], an image without channels being one), got "
            f"inputs of shape {list(input_shape)}"
        )
    return RowReader(input_shape[1], hidden, num_classes)


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
    if len(input_shape) != 1:
        raise UserError(
            "word-lstm needs windows of token ids ([steps]), got inputs of shape "
            f"{list(input_shape)}"
        )
    return WordModel(num_classes, width, depth)
