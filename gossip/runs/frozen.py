"""Imported behind all else in the process that a sweep's runs are forked from.

What has been imported is never garbage. Frozen, no collection of a run looks through it, which
would copy the pages that all runs share: a third of a short run's CPU time. Nor does each ask git
anew what code it is.
"""

import gc

from gossip.storage import folder

folder.provenance()
gc.collect()
gc.freeze()
