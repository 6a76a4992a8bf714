"""How Python starts in the programs of tests that have all of torch."""

import forking
import garbage

assert forking
assert garbage
