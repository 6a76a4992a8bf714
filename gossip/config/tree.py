"""The config as one frozen tree of sections, each with its defaults, help texts and checks."""

import math
from dataclasses import dataclass, field
from typing import Annotated

import torch
from tyro.conf import arg

import topologies
from gossip.algorithms import NAMES, NOISE_MODES, ORDERS, check_options
from gossip.comm.connect import BACKENDS
from gossip.compress import OPERATORS, wire
from gossip.config.compute import Compute
from gossip.config.damping import BatchGrowth
from gossip.config.fields import at_least, names, not_negative
from gossip.config.rate import Rate
from gossip.config.reliability import Reliability
from gossip.data import DATASETS, INPUT_SCALINGS, PARTITIONS, TARGET_SCALINGS
from gossip.errors import UserError, one_of
from gossip.models import ACTIVATIONS, MODELS
from gossip.monitor import LEVELS, SOURCES
from gossip.task.loss import CROSS_ENTROPY, LOSSES
from gossip.trackers import TRACKERS

DTYPES = ("float32", "float64")
WIRES = {"full": None, "bf16": torch.bfloat16, "fp16": torch.float16}
"""What `--wire` offers beside operators of `gossip.compress`."""
BATCH_NORMS = ("recalibrate", "average", "first")


@dataclass(frozen=True, kw_only=True)
class Averaging:
    """Who averages with whom."""

    learners: int = 16
    """Number of learners n; any number of processes that divides it can host them."""
    topology: Annotated[str, arg(metavar="NAME|FILE|MODULE:FUNCTION")] = "ring"
    """The communication graph; `python -m topologies` lists what there is."""
    topology_options: tuple[str, ...] = ()
    """Options of the topology as key=value, for example k=4 seed=1."""
    weights: Annotated[str, names(topologies.WEIGHTS)] = "metropolis-hastings"
    """How a graph becomes a mixing matrix W."""
    order: Annotated[str, names(ORDERS)] = "awc"
    """awc: average while computing, the DPSGD paper's; atc: adapt, then combine."""
    algorithm_options: tuple[str, ...] = ()
    """Options of the algorithms as key=value, for example beta=0.9; each takes those it has."""
    mix_every: int = 1
    """Average with the neighbours every H-th step only."""
    mixing_weight: float = 1.0
    """omega in (0, 1]: (1 - omega) I + omega W in the place of W, so that more is kept."""
    noise_std: float = 0.1
    """SSGD*: standard deviation sigma_0 of the injected noise."""
    noise_mode: Annotated[str, names(NOISE_MODES)] = "eval"
    """SSGD*: whether the noise is only where gradients are taken, centered, or persists."""
    backend: Annotated[str, names(BACKENDS)] = "auto"
    """How processes reach each other; auto: stacked for one process; for several, nccl where they
    have GPUs, else mpi where mpirun has started them, and gloo else (torchrun, srun)."""
    wire: Annotated[str, names(WIRES, own="int8|int4|fp4")] = "full"
    """How rows that are mixed travel: bf16 and fp16 halve the bytes; int8, int4, fp4 (or int4:64,
    by blocks of 64) leave an eighth to a fourth, and the mean as it is; sums are in full."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        at_least(1, learners=self.learners, mix_every=self.mix_every)
        not_negative(noise_std=self.noise_std)
        if not 0 < self.mixing_weight <= 1:
            raise UserError(f"mixing_weight={self.mixing_weight}: it is a share of W, in (0, 1]")
        one_of(topologies.WEIGHTS, self.weights, "weights")
        one_of(ORDERS, self.order, "order")
        one_of(NOISE_MODES, self.noise_mode, "noise mode")
        one_of(BACKENDS, self.backend, "backend")
        if self.wire not in WIRES:
            one_of((*WIRES, *OPERATORS), self.wire.split(":")[0], "wire precision")
            wire(self.wire)


@dataclass(frozen=True, kw_only=True)
class Data:
    """What is learned from."""

    dataset: Annotated[str, names(DATASETS, own="MODULE:FUNCTION")] = "mnist"
    """Data set; `python -m gossip.data fetch NAME` brings it to this machine."""
    data_dir: Annotated[str | None, arg(metavar="FOLDER")] = None
    """Folder that holds the data set's files, looked into before the cache; of one's own data set
    NAME: NAME.npz, NAME.parquet, NAME.csv, NAME/train.parquet and test.parquet (or .csv),
    NAME/train/CLASS/*.png, or a folder NAME that Hugging Face's datasets have saved."""
    inputs: Annotated[str, names(INPUT_SCALINGS)] = "unit"
    """unit: scaled to [0, 1]; standardised: by mean and standard deviation; raw: as stored."""
    targets: Annotated[str, names(TARGET_SCALINGS)] = "standardised"
    """Labels that are real numbers: standardised, mean 0 and standard deviation 1 over the training
    set; raw: as stored."""
    batch_size: int = 125
    """Mini-batch of each learner, B; the total batch is n B."""
    partition: Annotated[str, names(PARTITIONS)] = "shared"
    """shared: each epoch one permutation dealt to all; iid: fixed random shards; dirichlet: fixed
    shards with skewed labels."""
    concentration: float = 0.5
    """dirichlet: the smaller, the more skewed."""
    validation: int = 0
    """Training samples held out, evenly over the classes, to judge by instead of the test set."""
    replacement: bool = False
    """Draw batches with replacement instead of walking through the shard each epoch."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        at_least(1, batch_size=self.batch_size)
        at_least(0, validation=self.validation)
        if ":" not in self.dataset and self.data_dir is None:
            one_of(DATASETS, self.dataset, "dataset")
        one_of(INPUT_SCALINGS, self.inputs, "input scaling")
        one_of(TARGET_SCALINGS, self.targets, "scaling of targets")
        one_of(PARTITIONS, self.partition, "partition")
        if not 0 < self.concentration < math.inf:
            raise UserError(f"concentration={self.concentration}: it must be a positive number")


@dataclass(frozen=True, kw_only=True)
class Model:
    """What is trained."""

    model: Annotated[str, names(MODELS, own="MODULE:FUNCTION")] = "mlp"
    """A function (input_shape, num_classes) -> torch module, in PyTorch's default init."""
    widths: tuple[int, ...] = (50, 50)
    """mlp: sizes of the hidden layers."""
    activation: Annotated[str, names(ACTIVATIONS)] = "relu"
    """Activation function; ignored by models with a fixed one."""
    model_options: tuple[str, ...] = ()
    """Further options of the model as key=value, for example width=16."""
    loss: Annotated[str, names(LOSSES, own="MODULE:FUNCTION")] = CROSS_ENTROPY
    """cross-entropy of classes; mse, the mean square, of labels that are real numbers; or a
    function (outputs, labels) -> mean loss over the samples."""
    batch_norm: Annotated[str, names(BATCH_NORMS)] = "recalibrate"
    """Running statistics that the mean model is judged with: recalibrate, measured anew on
    training samples; average, of the learners'; first, those of learner 0."""
    dtype: Annotated[str, names(DTYPES)] = "float32"
    """Precision of weights and gradients; the monitor's sums are float64 either way."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        if ":" not in self.model:
            one_of(MODELS, self.model, "model")
        if ":" not in self.loss:
            one_of(LOSSES, self.loss, "loss")
        one_of(ACTIVATIONS, self.activation, "activation")
        one_of(DTYPES, self.dtype, "dtype")
        one_of(BATCH_NORMS, self.batch_norm, "BatchNorm policy")
        for width in self.widths:
            at_least(1, widths=width)


@dataclass(frozen=True, kw_only=True)
class Monitoring:
    """What is watched while it learns."""

    monitor: Annotated[str, names(LEVELS)] = "standard"
    """cheap: no extra gradients; standard: adds the full gradient g, alpha_e and Delta; full: adds
    g_S, the exact split of Delta and both Hessian forms."""
    monitor_every: int = 25
    """Monitor, evaluate and write the trace every k steps, and always at step 0 and the last."""
    monitor_source: Annotated[str, names(SOURCES)] = "full"
    """Samples behind g: the full training set, a fresh probe, or a probe's split halves."""
    probe: int = 5_000
    """Samples of a probe."""
    hessian_samples: int = 2_000
    """full: training samples behind the Hessian of Delta2's second form; 0 for all of them."""
    lipschitz_samples: int = 0
    """Samples of the probe for the local Lipschitz constant L(x, g); 0: it is not measured."""
    single_learners: bool = False
    """Judge every learner's own model on the test set besides the mean one: least, mean and
    largest error."""
    step_times: bool = False
    """Write what each learner's gradient took at each step into the trace: gossip.simulate
    --step-times replays it."""
    log: Annotated[tuple[str, ...], names(TRACKERS)] = ()
    """Experiment trackers that get the trace's rows, too; one that is not installed, offline
    or slow neither stops nor slows the run."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        one_of(LEVELS, self.monitor, "monitor level")
        one_of(SOURCES, self.monitor_source, "monitor source")
        for name in self.log:
            one_of(TRACKERS, name, "tracker")
        at_least(1, monitor_every=self.monitor_every)
        at_least(2, probe=self.probe)
        at_least(0, hessian_samples=self.hessian_samples, lipschitz_samples=self.lipschitz_samples)


@dataclass(frozen=True, kw_only=True)
class Config:
    """Train one model on n learners that average with their neighbours.

    With no option: the default study, DPSGD on a ring of 16 learners next to SSGD, on MNIST.
    """

    algorithm: Annotated[tuple[str, ...], names(NAMES)] = ("dpsgd", "ssgd")
    """One algorithm or several, run after each other on the same seeds and batches."""
    steps: int = 1500
    """Number of steps."""
    epochs: Annotated[float | None, arg(metavar="FLOAT")] = None
    """Length in passes over the training set, in place of --steps."""
    seed: int = 0
    """Decides weights, batches, noise and random topologies."""
    gossip: Averaging = field(default_factory=Averaging)
    data: Data = field(default_factory=Data)
    model: Model = field(default_factory=Model)
    rate: Rate = field(default_factory=Rate)
    damping: BatchGrowth = field(default_factory=BatchGrowth)
    monitoring: Monitoring = field(default_factory=Monitoring)
    reliability: Reliability = field(default_factory=Reliability)
    compute: Compute = field(default_factory=Compute)

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        if not self.algorithm:
            raise UserError(f"no algorithm given; there are {', '.join(NAMES)}")
        for name in self.algorithm:
            one_of(NAMES, name, "algorithm")
        if len(set(self.algorithm)) < len(self.algorithm):
            raise UserError(f"algorithm {' '.join(self.algorithm)}: name each one once")
        at_least(1, steps=self.steps)
        at_least(0, seed=self.seed)
        if self.epochs is not None and not 0 < self.epochs < math.inf:
            raise UserError(f"epochs={self.epochs}: it must be a positive number")
        check_options(self.algorithm, self.gossip.algorithm_options)
        self._check_amp()

    @property
    def skips(self) -> bool:
        """Whether a step whose gradient is not finite is left out."""
        return self.reliability.skips or self.compute.scales_loss

    def _check_amp(self) -> None:
        if self.compute.amp != "off" and self.model.dtype != "float32":
            raise UserError(
                f"amp={self.compute.amp} with dtype={self.model.dtype}: mixed precision saves what "
                "float32 has to spare; use --dtype float32, or --amp off"
            )
        if self.compute.scales_loss and self.reliability.raises:
            raise UserError(
                "amp=fp16 with on_nonfinite=raise: a gradient that overflows in half precision is "
                "how its scale is found, no error; use --on-nonfinite record or skip, or --amp bf16"
            )
