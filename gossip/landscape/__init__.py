"""`python -m gossip.landscape`: the loss about the learners of a checkpoint, and its curvature."""
