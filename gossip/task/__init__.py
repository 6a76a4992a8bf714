"""How a flat row is a model: losses and gradients of many learners at once."""

from gossip.task.task import Gradients, Task

__all__ = ["Gradients", "Task"]
