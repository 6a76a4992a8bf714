"""Theorem 1: does averaging over the learners make the loss smoother, and is that why it trains?"""
