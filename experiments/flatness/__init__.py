"""Flatness at equal training loss: curvature and sharpness of SSGD's and of DPSGD's mean model."""
