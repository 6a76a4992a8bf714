"""`python -m experiments.date`: the DATE paper's figures, at lengths that two cores can carry."""
