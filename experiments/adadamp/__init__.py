"""The AdaDamp paper's study at reduced size: `python -m experiments.adadamp`."""
