"""Transports: how rows travel between the processes that host the learners."""
