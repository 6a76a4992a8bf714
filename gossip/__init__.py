"""Train one model on many learners without a global all-reduce, and see why it works."""

from gossip.comm.start import prepare_environment

__version__ = "0.1.0"

# Threads per process and MPI's yielding are read when torch and MPI start, so they are decided
# here, before either is imported; nothing is set where one process was started alone.
prepare_environment()
