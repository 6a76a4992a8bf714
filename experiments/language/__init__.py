"""Warm-ups and peak rates of a small transformer on bytes, SSGD against DPSGD."""
