"""Small data and modules for the tests of the estimators."""

import numpy as np
import torch
from sklearn.datasets import make_classification, make_regression
from torch import nn

CLASSES = make_classification(
    n_samples=90, n_features=6, n_informative=4, n_classes=3, random_state=0
)
NUMBERS = make_regression(n_samples=90, n_features=6, random_state=0)
NUMBERS = (NUMBERS[0], NUMBERS[1] / NUMBERS[1].std())
WORDS = np.array(["ash", "beech", "cedar"])[CLASSES[1]]


class Linear(nn.Module):
    """A linear map of so many features, with dropout."""

    def __init__(self, features: int = 6, outputs: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.map = nn.Linear(features, outputs)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.map(self.dropout(x))
