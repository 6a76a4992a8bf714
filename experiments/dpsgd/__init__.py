"""The DPSGD paper's MNIST study, its injected noise, and a comparison of topologies."""
