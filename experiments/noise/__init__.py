"""The intervention on DPSGD's noise: which of its properties rescues training."""
