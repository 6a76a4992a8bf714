"""Config section: device, precision, compiler and CUDA graphs."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import torch

from gossip.config.fields import names
from gossip.errors import UserError, one_of
from gossip.task.device import gpus_seen, place
from gossip.task.layers import Layer
from gossip.task.numerics import IMAGES, Numerics

DEVICES = ("auto", "cpu", "cuda")
"""What `--device` offers."""
AMPS = {"off": None, "bf16": torch.bfloat16, "fp16": torch.float16}
"""What `--amp` offers."""
GRAPHS = ("auto", "on", "off")
"""What `--cuda-graphs` offers."""


@dataclass(frozen=True, kw_only=True)
class Compute:
    """What is computed on, and how precisely."""

    device: Annotated[str, names(DEVICES)] = "auto"
    """auto: cuda if torch sees a GPU, else cpu. The processes of a host take its GPUs in turn."""
    amp: Annotated[str, names(AMPS)] = "off"
    """Forward and backward passes in mixed precision (torch.autocast); weights and gradients stay
    float32. fp16 scales the loss; a gradient that overflows is left out by all learners."""
    tf32: bool = False
    """Let a GPU multiply float32 matrices, and convolve, with the 10-bit mantissa of TF32."""
    channels_last: bool = False
    """Compute convolutions on images with the channels innermost."""
    compile: bool = False
    """Let torch.compile make a step's gradient: worth its minute for deep nets, not for small."""
    cuda_graphs: Annotated[str, names(GRAPHS)] = "auto"
    """Record a step's gradient once and replay it: for small models, whose step is all launching
    of kernels. auto: where that can be expected to pay."""

    @property
    def scales_loss(self) -> bool:
        """Whether a loss is scaled, and steps whose gradient overflows are left out."""
        return self.amp == "fp16"

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        one_of(DEVICES, self.device, "device")
        one_of(AMPS, self.amp, "mixed precision")
        one_of(GRAPHS, self.cuda_graphs, "choice of CUDA graphs")
        if self.cuda_graphs == "on" and self.device == "cpu":
            raise UserError("cuda_graphs=on with device=cpu: CUDA graphs need a GPU; use auto")

    def numerics(self) -> Numerics:
        """How this process computes; its GPU and TF32 become torch's own choice, too.

        Raises:
            UserError: there is no GPU, and one is needed.
        """
        device = place(self.device)
        if self.cuda_graphs == "on" and device.type == "cpu":
            raise UserError(f"cuda_graphs=on: CUDA graphs need a GPU, and {gpus_seen()}; use auto")
        if device.type == "cuda":
            # cuDNN's own default is TF32: off is to mean off.
            torch.backends.cudnn.allow_tf32 = self.tf32
            torch.set_float32_matmul_precision("high" if self.tf32 else "highest")
        return Numerics(
            device=device,
            amp=AMPS[self.amp],
            channels_last=self.channels_last,
            compile=self.compile,
        )


def idle(compute: Compute, numerics: Numerics, layers: Iterable[Layer]) -> list[str]:
    """Notes on options that were given and have no effect."""
    notes = []
    if compute.tf32 and numerics.device.type == "cpu":
        notes.append("tf32 has no effect on a CPU")
    if compute.channels_last and not any(len(layer.shape) == IMAGES for layer in layers):
        notes.append("channels-last has no effect with a model without convolutions of images")
    return notes
