"""How all processes of a job end: together, soon, and with one message."""
