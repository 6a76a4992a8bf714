"""What the C library keeps is not faulted in again; counted, not timed."""

import os
import subprocess
import sys

import pytest

PROBE = """
import resource, torch
from gossip.malloc import keep_memory
def faults():
    def step():
        torch.empty(2**24).fill_(1.0)  # 64 MB: above any threshold of glibc's
    for _ in range(10):  # until the heap has grown as large as it will be
        step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(faults(), keep_memory(), faults())
"""
SAID = "from gossip.malloc import keep_memory; print(keep_memory())"


def printed(program: str, **said: str) -> list[str]:
    """The words that a program prints, in a process of its own with the C library's defaults."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=plain | said, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc is Linux's")
def test_a_step_faults_no_page_twice():
    given_back, kept, faults = printed(PROBE)
    if kept == "False":
        pytest.skip("the C library is not glibc")
    assert int(faults) <= int(given_back) / 20


def test_what_the_user_has_said_stays():
    assert printed(SAID, MALLOC_MMAP_MAX_="65536") == ["False"]
