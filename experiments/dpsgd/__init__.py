"""The DPSGD paper's MNIST study with its injected noise, and a comparison of topologies."""
