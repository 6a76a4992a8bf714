"""Bytes, seconds and loss of the family of methods, each tuned, on data alike and different."""
