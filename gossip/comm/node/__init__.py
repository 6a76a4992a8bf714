"""Within one host: rows in shared memory that its processes read in place."""
