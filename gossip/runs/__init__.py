"""The runs of one command: each in turn, with a recorder and checkpoints in a folder."""
