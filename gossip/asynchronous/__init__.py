"""AD-PSGD: learners that wait for nobody."""

from gossip.asynchronous.learners import COLUMNS
from gossip.asynchronous.train import check_study, train

__all__ = ["COLUMNS", "check_study", "train"]
