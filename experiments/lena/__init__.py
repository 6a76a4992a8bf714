"""`python -m experiments.lena`: the LENA paper's tables and figures."""
