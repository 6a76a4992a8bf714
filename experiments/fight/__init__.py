"""SSGD against DPSGD: the learning rates that each survives, and each at its best one."""
