"""Hugging Face's Trainer on gossip: mpirun -n 4 python examples/hf_trainer.py.

Each process is a Trainer of its own, with a model, data, and checkpoints of its own; `Learner`
below lets it talk to the others. It is short enough to be copied.
"""

import argparse
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import (
    EarlyStoppingCallback,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)

from gossip import Averager


class Learner(Trainer):
    """A Trainer whose model is averaged with its neighbours' behind each optimizer step.

    What it evaluates is the mean model of all learners; what it saves, to go on, is its own.
    """

    def __init__(self, model: PreTrainedModel, link: Averager, **options: Any) -> None:
        # Behind the user's callbacks: where one of them stops a learner, all stop.
        options["callbacks"] = [*options.get("callbacks", ()), Averaging(link)]
        super().__init__(model, **options)
        self.link = link

    def evaluate(self, *data: Any, **options: Any) -> dict[str, float]:
        """Of the mean model; collective."""
        with self.link.average():
            return super().evaluate(*data, **options)

    def save_mean(self, folder: str) -> None:
        """Save the mean model, as `from_pretrained` reads it; collective."""
        with self.link.average():
            if self.link.comm.process == 0:
                self.save_model(folder)


class Averaging(TrainerCallback):
    """The steps of the averaging are the optimizer's, also where training goes on."""

    def __init__(self, link: Averager) -> None:
        self.link = link

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """W(t) goes on at the step of the checkpoint."""
        self.link.load_state_dict({"step": state.global_step})

    def on_optimizer_step(self, *_: Any, **__: Any) -> None:
        """Behind clipping, accumulation and update."""
        self.link.step()

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """A learner that stops stops all: the others would wait for it."""
        control.should_training_stop = any(self.link.comm.share(control.should_training_stop))


def main(argv: Sequence[str] | None = None) -> Learner:
    """Train a small Llama on Python's own source."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--windows", type=int, default=2000, help="of all learners, for training")
    parser.add_argument("--out", default="runs/hf", help="folder of the checkpoints")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    parser.add_argument("--patience", type=int, default=3, help="evaluations that are no better")
    options = parser.parse_args(argv)

    set_seed(0)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=32,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config)
    link = Averager(model.named_parameters(), topology="one-peer-exponential")
    os.environ.pop("LOCAL_RANK", None)  # torchrun's: the Trainer would make one DDP model of all
    learner, n = link.comm.process, link.comm.n

    files = sorted(Path(os.__file__).parent.glob("*.py"))  # a text that is on every machine
    text = torch.frombuffer(bytearray(b"".join(f.read_bytes() for f in files)), dtype=torch.uint8)
    windows = text[: len(text) // 48 * 48].view(-1, 48).long()
    windows = windows[torch.randperm(len(windows), generator=torch.Generator().manual_seed(0))]
    held_out, rest = windows[:100], windows[100:]
    own = rest[: options.windows // n * n][learner::n]  # every learner takes as many steps

    trainer = Learner(
        model,
        link,
        args=TrainingArguments(
            output_dir=f"{options.out}/learner-{learner}",
            num_train_epochs=options.epochs,
            per_device_train_batch_size=16,
            gradient_accumulation_steps=2,
            max_grad_norm=1.0,
            learning_rate=1e-2,
            lr_scheduler_type="cosine",
            warmup_steps=10,
            eval_strategy="epoch",
            save_strategy="epoch",
            save_total_limit=1,
            metric_for_best_model="loss",
            seed=learner,
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
            dataloader_pin_memory=False,
        ),
        train_dataset=[{"input_ids": w, "labels": w} for w in own],
        eval_dataset=[{"input_ids": w, "labels": w} for w in held_out],
        callbacks=[EarlyStoppingCallback(options.patience)],
    )
    trainer.train(resume_from_checkpoint=options.resume)
    bits = trainer.evaluate()["eval_loss"] / math.log(2)
    trainer.save_mean(f"{options.out}/mean")
    if learner == 0:
        steps = trainer.state.global_step
        print(f"{bits:.2f} bits per byte, mean model of n = {n}, {steps} steps", flush=True)
    return trainer


if __name__ == "__main__":
    main()
