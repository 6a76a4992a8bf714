"""What holds for all tests."""

import os

# One thread: the tests' matrices are small, and the machine may be shared.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings

# A shared machine may stall at any moment: time says nothing about correctness here.
settings.register_profile("gossip", deadline=None)
settings.load_profile("gossip")
