"""What one command does: its runs in turn, each with a record and checkpoints in a folder."""
