"""Ways to train a module on gossip: by hand and by the frameworks' own loops.

Each is a function (module, optimizers, topology, t -> what happens before step t; of some also what
is around all steps): it takes `STEPS` steps of `loss` on the one batch there is, and gives what an
optimizer's step is followed by, "awc" or "atc".
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

import gossip
from tests.wrapper.loops import batch_of

STEPS = 4
BATCH = batch_of(0, 0)

Optimizers = Callable[[], list[torch.optim.Optimizer]]
Before = Callable[[int], object]
Around = Callable[[gossip.Gossip], AbstractContextManager[object]]


def loss(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).square().mean()


def step(model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> None:
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss(model, BATCH).backward()
    for optimizer in optimizers:
        optimizer.step()


def wrapper(module: nn.Module, optimizers: Optimizers, topology: Any, before: Before) -> str:
    model = gossip.Gossip(module, topology, backend="scripted")
    own = optimizers()
    for t in range(STEPS):
        before(t)
        step(model, own)
    return "awc"


def averager(module: nn.Module, optimizers: Optimizers, topology: Any, before: Before) -> str:
    link = gossip.Averager(module.named_parameters(), topology, backend="scripted")
    own = optimizers()
    for t in range(STEPS):
        before(t)
        step(module, own)
        link.step()
    return "atc"


def record(module: nn.Module, optimizers: Optimizers, topology: Any, before: Before) -> str:
    model = gossip.Gossip(module, topology, backend="scripted")
    own = optimizers()
    with TemporaryDirectory() as out:
        options = {"every": 2, "probe": [BATCH], "loss": loss, "whole": True}
        with gossip.record(model, Path(out, "run"), **options) as recording:
            for t, _ in enumerate(recording.batches([BATCH] * STEPS)):
                before(t)
                step(model, own)
    return "awc"


def compiled(module: nn.Module, optimizers: Optimizers, topology: Any, before: Before) -> str:
    torch._dynamo.reset()
    model = gossip.Gossip(module, topology, backend="scripted")
    own, whole = optimizers(), torch.compile(model, backend="eager")
    for t in range(STEPS):
        before(t)
        step(whole, own)
    return "awc"


def accelerate(
    module: nn.Module,
    optimizers: Optimizers,
    topology: Any,
    before: Before,
    around: Around = nullcontext,
) -> str:
    from accelerate import Accelerator

    model = gossip.Gossip(module, topology, backend="scripted")
    accelerator = Accelerator()  # which, told that it is on a CPU, makes one DDP model of all
    model, *own = accelerator.prepare(model, *optimizers())
    with around(model):
        for t in range(STEPS):
            before(t)
            for optimizer in own:
                optimizer.zero_grad()
            accelerator.backward(loss(model, BATCH))
            for optimizer in own:
                optimizer.step()
    return "awc"


def lightning(
    module: nn.Module,
    optimizers: Optimizers,
    topology: Any,
    before: Before,
    around: Around = nullcontext,
) -> str:
    import lightning as L  # noqa: N812 - its own name for itself

    class Learner(L.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = gossip.Gossip(module, topology, backend="scripted")
            self.automatic_optimization = len(optimizers()) == 1

        def configure_optimizers(self) -> Any:
            return optimizers()

        def training_step(self, batch: Tensor, index: int) -> Tensor:
            before(index)
            value = loss(self.model, batch)
            if not self.automatic_optimization:
                own = self.optimizers()
                for optimizer in own:
                    optimizer.zero_grad()
                self.manual_backward(value)
                for optimizer in own:
                    optimizer.step()
            return value

    quiet = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    trainer = L.Trainer(max_epochs=1, accelerator="cpu", devices=1, **dict.fromkeys(quiet, False))
    learner = Learner()
    with around(learner.model):
        trainer.fit(learner, torch.utils.data.DataLoader([BATCH] * STEPS, batch_size=None))
    return "awc"


def trainer(module: nn.Module, optimizers: Optimizers, topology: Any, before: Before) -> str:
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    try:
        from hf_trainer import Learner
    finally:
        sys.path.pop(0)
    from transformers import TrainerCallback, TrainingArguments

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"loss": loss(self.inner, x)}

    class Before(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            before(state.global_step)

    (optimizer,) = optimizers()
    link = gossip.Averager(module.named_parameters(), topology, backend="scripted")
    with TemporaryDirectory() as out:
        arguments = TrainingArguments(
            output_dir=out,
            max_steps=STEPS,
            per_device_train_batch_size=len(BATCH),
            max_grad_norm=0.0,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
            dataloader_pin_memory=False,
        )
        Learner(
            Model(),
            link,
            args=arguments,
            train_dataset=[{"x": x} for x in BATCH],
            optimizers=(optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)),
            callbacks=[Before()],
        ).train()
    return "atc"


ADAPTERS = {
    f.__name__: f for f in (wrapper, averager, record, compiled, accelerate, lightning, trainer)
}
NEEDS = {"accelerate": "accelerate", "lightning": "lightning", "trainer": "transformers"}
