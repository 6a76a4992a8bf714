"""Garbage of what is imported is looked for again and again, and there is none.

Nor is there where Python ends: to look through all of torch once more takes half a CPU second. A
program's own garbage is found as ever, but for the last of it.
"""

import atexit
import gc

FEW_COLLECTIONS = 100_000
"""Objects more than were given back before the youngest are looked through; Python says 700."""

gc.set_threshold(FEW_COLLECTIONS)
atexit.register(gc.freeze)
