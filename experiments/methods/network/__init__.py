"""Seconds and bytes until a loss, measured between hosts, beside what other libraries have."""
