"""Studies of real processes: stragglers in real time, and learners that are killed."""
