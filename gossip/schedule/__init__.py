"""The learning rate of every iteration, exactly and without training."""

from gossip.schedule.course import Course, Row, courses

__all__ = ["Course", "Row", "courses"]
