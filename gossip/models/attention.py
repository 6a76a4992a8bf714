"""A causal transformer: tokens one after the other, each looking back at those before it."""

from math import sqrt

import torch
from torch import Tensor, nn

from gossip.errors import UserError
from gossip.models.inputs import refuse_numbers, token_steps


class TransformerBlock(nn.Module):
    """Attention and a hidden layer, each on normalised inputs and added to them.

    Attention is its plain formula, softmax(Q K' / sqrt(width / heads)) V of each head, which torch
    batches over learners and differentiates twice; fused, it does neither.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_hidden = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.joined = nn.Linear(width, width)
        self.hidden = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, width] -> the same."""
        x = x + self.attention(self.before_attention(x))
        return x + self.hidden(self.before_hidden(x))

    def attention(self, x: Tensor) -> Tensor:
        """[B, T, width] -> the same: position t sees positions 0 ... t."""
        batch, steps, width = x.shape
        by_head = (batch, steps, 3, self.heads, width // self.heads)
        q, k, v = self.queries_keys_values(x).reshape(by_head).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / sqrt(width // self.heads)
        later = torch.ones(steps, steps, dtype=torch.bool, device=x.device).triu(1)
        seen = scores.masked_fill(later, -torch.inf).softmax(dim=-1) @ v
        return self.joined(seen.transpose(1, 2).reshape(batch, steps, width))


class Transformer(nn.Module):
    """Embeddings of tokens and of places, blocks, and at each position a linear layer."""

    def __init__(self, vocabulary: int, steps: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(steps, width)
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads) for _ in range(depth)))
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        """Token ids [B, T] -> logits of the next token [B, T, vocabulary]."""
        refuse_numbers("transformer", tokens, "brown-bytes")
        places = torch.arange(tokens.shape[-1], device=tokens.device)
        return self.linear(self.norm(self.blocks(self.tokens(tokens) + self.places(places))))


def transformer(
    input_shape: tuple[int, ...],
    num_classes: int,
    *,
    width: int = 64,
    depth: int = 2,
    heads: int = 4,
) -> nn.Module:
    """A causal language model as GPT-2, small: each position predicts the next token.

    Args:
        input_shape: [T], windows of T token ids.
        num_classes: size of the vocabulary.
        width: of the embedding; the hidden layers have four times as many units.
        depth: number of blocks.
        heads: of attention, which share the width.

    Raises:
        UserError: the inputs are no windows of tokens, or the heads do not divide the width.

    Reference: Vaswani et al., "Attention is all you need", NeurIPS 2017; normalised before and not
    after each part as in Radford et al., "Language models are unsupervised multitask learners",
    2019. There is no dropout, and the weights start as PyTorch draws them.
    """
    steps = token_steps("transformer", input_shape)
    if heads < 1 or width % heads:
        raise UserError(f"heads={heads} of attention share width={width}: give a divisor of it")
    return Transformer(num_classes, steps, width, depth, heads)
