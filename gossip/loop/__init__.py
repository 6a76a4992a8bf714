"""A run between two steps: its state, its clock, its verdict, and what is done at its end."""
