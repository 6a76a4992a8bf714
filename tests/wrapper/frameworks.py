"""Run under mpirun by test_examples: examples on Hugging Face's libraries stop, and go on.

Usage: frameworks.py FOLDER. Each example is trained at once; and stopped by learner 1 alone after
the first epoch, then taken up. A line per example: how many epochs the stopped one had on all
processes, and the largest difference of a weight in the end, over all processes.
"""

import sys
from pathlib import Path

import torch
from transformers import EarlyStoppingCallback

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import accelerate_loop
import hf_trainer

EPOCHS = "2"


def weights(module: torch.nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in module.parameters()])


class Stop(EarlyStoppingCallback):
    """Stops learner 1 at its first evaluation."""

    on = False

    def on_evaluate(self, args, state, control, metrics, **_):
        control.should_training_stop |= Stop.on and args.output_dir.endswith("learner-1")


def trainer(folder: Path) -> tuple[float, torch.Tensor]:
    hf_trainer.EarlyStoppingCallback = Stop
    words = ["--epochs", EPOCHS, "--windows", "320", "--out"]
    whole = hf_trainer.main([*words, str(folder / "whole")])
    Stop.on = True
    stopped = hf_trainer.main([*words, str(folder / "part")])
    Stop.on = False
    resumed = hf_trainer.main([*words, str(folder / "part"), "--resume"])
    return stopped.state.epoch, weights(whole.model) - weights(resumed.model)


def accelerate(folder: Path) -> tuple[float, torch.Tensor]:
    words = ["--epochs", EPOCHS, "--out"]
    never = ["--stop-at", "2"]
    whole = accelerate_loop.main([*words, str(folder / "whole"), *never])
    accelerate_loop.main([*words, str(folder / "part"), "--stop-at", "0"])
    epochs = torch.load(next((folder / "part").glob("*-1.pt")))["epochs"]
    resumed = accelerate_loop.main([*words, str(folder / "part"), *never, "--resume"])
    pairs = zip(whole, resumed, strict=True)
    return epochs, torch.cat([weights(a) - weights(b) for a, b in pairs])


def main() -> None:
    from gossip import Averager

    folder = Path(sys.argv[1])
    comm = Averager([torch.nn.Parameter(torch.ones(1))], topology="ring").comm
    for run in (trainer, accelerate):
        epochs, differences = run(folder / run.__name__)
        told = comm.share((epochs, float(differences.abs().max())))
        if comm.process == 0:
            print(run.__name__, [e for e, _ in told], max(d for _, d in told), flush=True)
    # Process 0 alone writes it, and no other may read it before.
    if comm.process == 0:
        hf_trainer.LlamaForCausalLM.from_pretrained(folder / "trainer" / "part" / "mean")


if __name__ == "__main__":
    main()
