"""The LENA paper's tables and figures: `python -m experiments.lena`."""
