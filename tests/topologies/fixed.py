"""Topologies that are data sets of networkx, and their numbers of learners."""

FIXED = {"karate": 34, "davis": 32, "florentine": 15, "les-miserables": 77}
