"""A run whose optimizer is made without torch's compiler is the same, and never imports it."""

import subprocess
import sys

import pytest
import torch

from gossip.optim import OPTIMIZERS
from gossip.optim.uncompiled import plain_step, uncompiled

CODE = """if True:
    import sys
    sys.modules["mpi4py"] = None  # as if it were not installed: one process needs none
    from gossip.run import main
    options = "--dataset digits --learners 2 --batch-size 8 --steps 2 --monitor full --out run"
    assert main(options.split()) == 0
    import gossip.wrapper  # as a loader's workers do, which make no wrapper
    needless = "torch._dynamo sympy sklearn scipy.optimize scipy.stats pandas skorch"
    print([name for name in needless.split() if name in sys.modules])
"""


def test_a_run_needs_no_mpi_and_imports_no_compiler_nor_else_what_takes_long(tmp_path):
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_plain_step_is_the_optimizers_step(name):
    generator = torch.Generator().manual_seed(0)
    start, *gradients = torch.randn(4, 3, 2, generator=generator)
    weights = []
    for plain in (False, True):
        parameter = torch.nn.Parameter(start.clone())
        with uncompiled():
            optimizer = OPTIMIZERS[name].make([parameter], lr=0.1, **OPTIMIZERS[name].defaults)
        step = plain_step(optimizer) if plain else optimizer.step
        for gradient in gradients:
            parameter.grad = gradient.clone()
            step()
        weights.append(parameter.detach())
    assert torch.equal(*weights)
    assert not torch.equal(weights[0], start)
