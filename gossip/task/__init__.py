"""How a flat row is a model: losses and gradients of many learners at once."""

from gossip.task.row_gradients import Gradients
from gossip.task.task import Task

__all__ = ["Gradients", "Task"]
