"""The papers' figures of time, simulated, and how far the simulator is to be believed."""
