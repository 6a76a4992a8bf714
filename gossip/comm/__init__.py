"""Backends: how the learners of this process reach the others."""
