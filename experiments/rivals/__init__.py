"""DPSGD against every synchronous rival, with equal tuning: `python -m experiments.rivals`."""
