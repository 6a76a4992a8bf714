"""The run folder on disk: its format, its lock, and a look into it. Imports no torch."""
