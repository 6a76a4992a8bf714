"""Compiled and recorded gradients are the gradients; what does not work is one sentence."""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from gossip import run
from gossip.comm.stacked import Stacked
from gossip.config import Averaging, Config, Data, Model, Rate, compute
from gossip.config.compute import Compute
from gossip.errors import UserError
from gossip.models.convolutional import cnn
from gossip.models.deep import vgg
from gossip.models.inverted import efficientnet
from gossip.study import algorithm, prepare
from gossip.study.step_gradient import of_steps
from gossip.task import Gradients, Task, cuda_graphs
from gossip.task.cuda_graphs import MOST_NUMBERS, Captured, expected_to_pay
from gossip.task.numerics import PLAIN, Numerics
from gossip.train import train
from tests.compute.elsewhere import ELSEWHERE, Elsewhere, replayed
from tests.problems import ArraySamples, digits_task


def config(**options) -> Config:
    return Config(
        algorithm=("dpsgd",),
        steps=3,
        gossip=Averaging(learners=4),
        data=Data(dataset="digits", batch_size=10),
        model=Model(widths=(6,), dtype="float64"),
        rate=Rate(lr=0.05),
        compute=Compute(**options),
    )


@pytest.fixture
def recorded(monkeypatch):
    """Counts recordings, which are made without a GPU."""
    made = []
    monkeypatch.setattr(cuda_graphs, "capture", lambda f: made.append(f) or replayed(f))
    return made


def test_a_recording_is_replayed_on_new_data_and_keeps_none_of_the_results(recorded):
    task = digits_task(widths=(6,))
    captured, kept = Captured(task.gradient), []
    for t in range(4):
        rng = np.random.default_rng(t)
        rows, squares, scale = (1, True, None) if t % 2 else (3, False, 2.0**t)
        batch = task.train.batch(rng.integers(0, 1000, (3, 5)))
        x = task.init(t).repeat(rows, 1)
        expected = task.gradient(x, *batch, squares=squares, scale=scale)
        kept.append((captured(x, *batch, squares=squares, scale=scale), expected))
    assert len(recorded) == 2
    for own, expected in kept:
        for part, other in zip(own, expected, strict=True):
            assert part is other is None or torch.equal(part, other)


def test_what_is_small_and_batched_on_a_gpu_is_expected_to_pay():
    task = digits_task(widths=(6,))
    assert not expected_to_pay(task, 4)
    task.numerics = Numerics(device=ELSEWHERE)
    assert expected_to_pay(task, 4)
    assert not expected_to_pay(task, MOST_NUMBERS // task.d + 1)
    task.numerics = Numerics(device=ELSEWHERE, compile=True)
    assert not expected_to_pay(task, 4)
    looped = digits_task(widths=(6,), engine="loop")
    looped.numerics = Numerics(device=ELSEWHERE)
    assert not expected_to_pay(looped, 4)


def broken(function) -> tuple[Gradients, None]:
    raise RuntimeError("operation not permitted when stream is capturing\nand more")


def test_a_model_that_cannot_be_recorded_is_noted_or_refused(monkeypatch):
    monkeypatch.setattr(compute, "place", lambda name: ELSEWHERE)
    monkeypatch.setattr(cuda_graphs, "capture", broken)
    with Elsewhere():
        study = prepare(config(), Stacked(4))
        assert study.gradient == study.task.gradient
        (note,) = study.warnings
        assert note.endswith("(RuntimeError: operation not permitted when stream is capturing)")
        with pytest.raises(UserError, match=r"cuda_graphs=on: .*capturing\).*--cuda-graphs off"):
            prepare(config(cuda_graphs="on"), Stacked(4))


def test_running_statistics_are_not_recorded(recorded):
    chosen = replace(config(), model=Model(model="tests.problems:batch_norm_net"))
    study = prepare(chosen, Stacked(4))
    with pytest.raises(UserError, match="running statistics"):
        of_steps(Compute(cuda_graphs="on"), study.task, study.sampler, squares=False)
    assert not recorded


@pytest.mark.parametrize("name", ["dpsgd", "ssgd"])
def test_steps_take_what_was_recorded(name, recorded, monkeypatch):
    """No step records anything more; test_devices has their trajectories."""
    monkeypatch.setattr(compute, "place", lambda name: ELSEWHERE)
    with Elsewhere():
        study = prepare(replace(config(), rate=Rate(lr=0.05, scaling="lena")), Stacked(4))
        assert isinstance(study.gradient, Captured)
        assert study.warnings == ()
        assert len(recorded) == 2  # a row per learner, and one for all
        train(study, algorithm(name, study))
        assert len(recorded) == 2


def test_a_compiler_that_does_not_work_is_one_sentence(monkeypatch, capsys, tmp_path):
    def without_compiler(function):
        def fails(*arguments):
            raise RuntimeError("No working C++ compiler found\nTo fix this ...")

        return fails

    monkeypatch.setattr(torch, "compile", without_compiler)
    arguments = "--dataset digits --learners 2 --batch-size 8 --steps 2 --compile"
    assert run.main([*arguments.split(), "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert said == [
        "gossip.run: compile: torch.compile does not work here with this model (RuntimeError: No "
        "working C++ compiler found); it needs a C++ compiler on a CPU and Triton on a GPU; leave "
        "--compile away"
    ]


@pytest.fixture(scope="module")
def compiler():
    """Skips, with what torch says, where there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch's own
            torch.compile(lambda x: x.sin().sum())(torch.ones(3))
    except Exception as error:
        pytest.skip(f"torch.compile does not work here: {str(error).splitlines()[0]}")


@pytest.mark.parametrize("model", ["mlp", "tests.problems:batch_norm_net"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
@pytest.mark.timeout(600)  # of compilers on a busy machine
def test_compiled_gradients_are_the_gradients(model, compiler):
    """By vmap, and one learner after the other with running statistics."""
    chosen = config(compile=True)
    chosen = replace(chosen, model=Model(model=model, widths=(6,), dtype="float64"))
    plain = replace(chosen, compute=Compute())
    tasks = [prepare(each, Stacked(4)).task for each in (chosen, plain)]
    x = tasks[0].init(0).repeat(4, 1)
    x += 0.1 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    batch = tasks[0].train.batch(np.arange(40).reshape(4, 10))
    buffers = [task.init_buffers(4) if task.has_buffers else None for task in tasks]
    ours, expected = (
        task.gradient(x, *batch, buffers=own) for task, own in zip(tasks, buffers, strict=True)
    )
    torch.testing.assert_close(ours.values, expected.values, rtol=1e-10, atol=1e-13)
    torch.testing.assert_close(ours.losses, expected.losses, rtol=1e-12, atol=0)
    torch.testing.assert_close(*buffers, rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"device": "gpu"}, r"unknown device 'gpu'.*auto, cpu, cuda"),
        ({"amp": "fp8"}, r"unknown mixed precision 'fp8'"),
        ({"cuda_graphs": "yes"}, r"unknown choice of CUDA graphs 'yes'"),
        ({"cuda_graphs": "on", "device": "cpu"}, r"cuda_graphs=on with device=cpu"),
    ],
)
def test_what_cannot_be_run_is_refused_where_it_is_said(options, complaint):
    with pytest.raises(UserError, match=complaint):
        Compute(**options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("options", [{"device": "cuda"}, {"cuda_graphs": "on"}])
def test_without_a_gpu_what_needs_one_is_one_sentence(options):
    with pytest.raises(UserError, match=r"torch .* (built without CUDA|sees 0 GPUs)"):
        prepare(config(**options), Stacked(4))


def test_options_without_effect_are_noted():
    study = prepare(config(tf32=True, channels_last=True), Stacked(4))
    assert [warning.split(" has")[0] for warning in study.warnings] == ["tf32", "channels-last"]
    convolving = replace(config(channels_last=True, device="cpu"), model=Model(model="cnn"))
    assert prepare(convolving, Stacked(4)).warnings == ()


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (partial(cnn, batch_norm=True), (8, 8)),
        (partial(vgg, width=2), (3, 8, 8)),
        (partial(efficientnet, width=2), (3, 8, 8)),
    ],
)
def test_the_memory_format_of_images_changes_nothing_but_rounding(build, shape):
    """Of inputs with channels and without; rows and gradients stay row-major."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(20, *shape, generator=generator, dtype=torch.float64)
    samples = ArraySamples(inputs, torch.arange(20) % 10)
    formats = (PLAIN, Numerics(channels_last=True))
    tasks = [
        Task(partial(build, shape, 10), samples, samples, dtype=torch.float64, numerics=numerics)
        for numerics in formats
    ]
    x, everything = tasks[0].init(0).repeat(2, 1), np.arange(20)
    batch = samples.batch(everything.reshape(2, 10))
    ours, expected = (task.gradient(x, *batch) for task in tasks)
    torch.testing.assert_close(ours.values, expected.values, rtol=1e-9, atol=1e-12)
    ours, expected = (task.evaluate(x[0], samples, everything) for task in tasks)
    assert ours.loss == pytest.approx(expected.loss, rel=1e-12)
