"""The DATE paper's figures, at lengths that two cores can carry: `python -m experiments.date`."""
