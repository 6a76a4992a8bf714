"""Simulated time: how long training takes on a network that one may not have."""
