"""`python -m experiments.rivals`: DPSGD against every synchronous rival, with equal tuning."""
