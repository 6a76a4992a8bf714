"""How Python starts in the programs of tests that have all of torch."""

import garbage

assert garbage
