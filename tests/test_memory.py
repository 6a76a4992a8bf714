"""What the C library keeps is not faulted in again; counted, not timed."""

import os
import subprocess
import sys

import pytest

PROBE = """
import resource, sys, torch
from gossip.malloc import keep_memory
kept = keep_memory() if "keep" in sys.argv else None
def step():
    torch.empty(2**24).fill_(1.0)  # 64 MB: above any threshold of glibc's
for _ in range(10):  # until the heap has grown as large as it will be
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    step()
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def probe(*arguments: str, **said: str) -> tuple[str, int]:
    """Whether memory is kept, and page faults of four steps; in a process of its own."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", PROBE, *arguments]
    done = subprocess.run(command, env=plain | said, capture_output=True, text=True, check=True)
    kept, faults = done.stdout.split()
    return kept, int(faults)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc is Linux's")
def test_a_step_faults_no_page_twice():
    kept, faults = probe("keep")
    if kept == "False":
        pytest.skip("the C library is not glibc")
    assert faults <= probe()[1] / 20


def test_what_the_user_has_said_stays():
    assert probe("keep", MALLOC_MMAP_MAX_="65536")[0] == "False"
