"""Studies of real processes: stragglers, and learners that are lost."""
