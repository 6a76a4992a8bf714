"""What both estimators share: scikit-learn's manners, skorch's parts, our dampers and engines."""

import copy
import inspect
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data
from skorch import NeuralNet
from skorch.callbacks import EpochTimer, PassthroughScoring
from skorch.dataset import Dataset
from torch import Tensor, nn

from gossip.engines import Engine, MicroBatch, Problem, as_engine, parts, workers_for
from gossip.errors import UserError, said
from gossip.estimators import picture
from gossip.estimators.course import Course, Update, epoch
from gossip.estimators.data import in_dtype, in_order, is_dataset, samples_of
from gossip.estimators.parameters import (
    check_amounts,
    check_device,
    check_loss,
    check_module,
    check_optimizer,
    check_rates,
    check_split,
    check_workers,
    damper_of,
    made,
)
from gossip.estimators.progress import ProgressLine
from gossip.estimators.updates import (
    JUDGED_AT_ONCE,
    ON_THE_SET,
    Updates,
    damped_rates,
    numbers,
    on_the_set,
    put,
)
from gossip.models import mlp
from gossip.streams import PASS, generator, seeded


class DampedNet(NeuralNet):
    """A skorch net whose batches a damper decides, and whose gradients an engine computes.

    skorch's are the parts that fit and that people know: parameters by double underscore, a
    changed one applied to a fitted net, callbacks, history, validation splits, saving. Not
    skorch's are the batches of an epoch (its loaders have one size), `partial_fit` (there it is
    `max_epochs` epochs, here one), labels and shapes (there they have to be what torch wants),
    and `__init__`, which here sets nothing but parameters.
    """

    course_: Any
    """A `Course`, from the first training on."""

    # What skorch's __init__ would set, of which nothing is a parameter here.
    initialized_ = False
    history_ = None
    compile = False
    use_caching = "auto"
    torch_load_kwargs = None
    virtual_params_: Mapping[str, Any] = {}

    def __init__(
        self,
        module: Any,
        loss: Any,
        optimizer: Any,
        lr: float | None,
        batch_size: Any,
        max_batch_size: float | None,
        max_epochs: int,
        engine: Any,
        min_workers: int,
        max_workers: int,
        grads_per_worker: int,
        random_state: Any,
        train_split: Any,
        callbacks: Any,
        predict_nonlinearity: Any,
        warm_start: bool,
        verbose: int,
        device: str,
        routed: dict[str, Any],
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "routed")}
        given.pop("__class__", None)
        # Not by setattr: skorch would take a module for a component of its own.
        self.__dict__.update(given, **routed)

    # Parameters -----------------------------------------------------------------------------------

    @property
    def _params_to_validate(self) -> set[str]:
        """Parameters by double underscore."""
        return {name for name in vars(self) if "__" in name and not name.startswith("_")}

    def _get_param_names(self) -> list[str]:
        named = inspect.signature(type(self).__init__).parameters.values()
        own = [p.name for p in named if p.kind != p.VAR_KEYWORD and p.name != "self"]
        return [*own, *sorted(self._params_to_validate)]

    def set_params(self, **params: Any) -> "DampedNet":
        """As skorch's, but what the batch and the engine are takes effect at the next training."""
        at_once = ("lr", "callbacks") if self.initialized_ else ()
        for name in list(params):
            is_own = name in vars(self) and "__" not in name and name not in at_once
            if is_own or name.startswith("batch_size__"):
                self.__dict__[name] = params.pop(name)
        self._check_routes(params)
        return super().set_params(**params) if params else self

    def _validate_params(self) -> None:
        self._check_routes(self._params_to_validate)

    def _check_routes(self, names: Any) -> None:
        known = ("module", "loss", "optimizer", "batch_size", "callbacks")
        for name in names:
            prefix, double, _ = name.partition("__")
            if not (name in vars(self) or (double and prefix in known)):
                raise UserError(
                    f"{type(self).__name__} has no parameter {name!r}: what goes to a part of it "
                    f"is called {', '.join(f'{one}__x' for one in known)}"
                )

    def __sklearn_clone__(self) -> "DampedNet":
        """The same parameters, not fitted; a Dask client is shared, for it cannot be copied."""
        params = self.get_params(deep=False)
        own = {
            name: value if name == "engine" else clone(value, safe=False)
            for name, value in params.items()
        }
        new = type(self)(**own)
        if hasattr(self, "_metadata_request"):
            new._metadata_request = copy.deepcopy(self._metadata_request)
        return new

    def __getstate__(self) -> dict[str, Any]:
        """Without the connection to a cluster, which is "dask" when it comes back."""
        state: Any = super().__getstate__()
        state.pop("_engine", None)
        if not isinstance(state["engine"], str):
            state["engine"] = "dask"
        return state

    @property
    def _default_callbacks(self) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = [
            ("epoch_timer", EpochTimer()),
            ("train_loss", PassthroughScoring(name="train_loss", on_train=True)),
            ("valid_loss", PassthroughScoring(name="valid_loss")),
        ]
        return [*found, ("progress", ProgressLine())] if self.verbose else found

    def get_params_for_optimizer(self, prefix: str, named_parameters: Any) -> Any:
        """Without a learning rate if none is given: the optimizer has its own."""
        args, kwargs = super().get_params_for_optimizer(prefix, named_parameters)
        if kwargs["lr"] is None:
            del kwargs["lr"]
        return args, kwargs

    # Parts ----------------------------------------------------------------------------------------

    def initialize(self) -> "DampedNet":
        """Make module, loss and optimizer anew, and begin at update 0.

        Raises:
            UserError: no data have been seen, of which shapes and classes are known; or a parameter
                that cannot be used.
        """
        if not hasattr(self, "_input_shape"):
            raise UserError(
                f"{type(self).__name__} knows shapes and classes from data, and has seen none: "
                "call fit or partial_fit (fit with max_epochs=0 if load_params comes next)"
            )
        self._validate_params()
        check_optimizer(self.optimizer)
        check_device(self.device)
        check_amounts(self.max_epochs, self.lr)
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.course_ = None
        self.meta_ = {
            "n_updates": 0,
            "n_data": 0,
            "epochs": 0.0,
            "damping_": 0,
            "batch_size_": 0,
            "lr_": float("nan"),
            "n_workers": 0,
            "partial_fit__time": 0.0,
            "partial_fit__calls": 0,
            "score__calls": 0,
        }
        self.initialized_ = False  # or skorch says that it makes them anew
        return super().initialize()

    def initialize_module(self) -> "DampedNet":
        """The module, its weights drawn at `random_state`; a copy, where it is an instance."""
        with seeded(self.seed_):
            options = self.get_params_for("module")
            if self.module is None:
                found = made("module", mlp, options, self._input_shape, self._num_outputs)
            else:
                found = made("module", self.module, options)
        check_module(found)
        self.module_ = found
        return self

    def initialize_criterion(self) -> "DampedNet":
        """The loss."""
        found = made("loss", self.loss, self.get_params_for("loss"))
        check_loss(found)
        self.loss_ = found
        return self

    @property
    def criterion_(self) -> nn.Module:
        """The loss, by the name under which skorch's `Checkpoint` saves and loads it."""
        return self.loss_

    def initialize_optimizer(self, *args: Any, **kwargs: Any) -> "DampedNet":
        """The optimizer of the module's weights.

        Raises:
            UserError: it cannot be made with the options given.
        """
        try:
            return super().initialize_optimizer(*args, **kwargs)
        except TypeError as error:
            raise UserError(
                f"the optimizer cannot be made ({said(error)}): what it is made with is given as "
                "lr and optimizer__x"
            ) from error

    def check_is_fitted(self, attributes: Any = None, *args: Any, **kwargs: Any) -> None:
        """Refuse what needs weights that are not there yet.

        Raises:
            NotFittedError: `fit` has not been called.
        """
        if not self.initialized_:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first")

    def __sklearn_is_fitted__(self) -> bool:
        return bool(self.initialized_)

    # Data -----------------------------------------------------------------------------------------

    def check_data(self, X: Any, y: Any = None) -> None:
        """All has been looked at."""

    def _checked_inputs(self, X: Any, y: Any = "no_validation", *, reset: bool, **how: Any) -> Any:
        """X, or X and y, by scikit-learn's rules; tensors come back as tensors."""
        got = validate_data(self, X, y, reset=reset, allow_nd=True, dtype="numeric", **how)
        inputs = got[0] if isinstance(got, tuple) else got
        inputs = X if isinstance(X, Tensor) else inputs
        return (inputs, got[1]) if isinstance(got, tuple) else inputs

    def get_dataset(self, X: Any, y: Any = None) -> Any:
        """Skorch's data set of X and y, in the module's numbers; any other as it is."""
        return X if is_dataset(X) else Dataset(in_dtype(X, self.module_), y)

    def get_iterator(self, dataset: Any, training: bool = False) -> Any:
        """The updates of the next epochs; or all samples in order, to be judged."""
        if training:
            return self._updates_of(dataset)
        return in_order(dataset, JUDGED_AT_ONCE)

    def get_loss(self, y_pred: Any, y_true: Any, *args: Any, **kwargs: Any) -> Tensor:
        """The loss of a batch that is judged."""
        encoded = np.asarray(y_true) if self._encode is None else self._encode(np.asarray(y_true))
        return self._shaped_loss()(y_pred, torch.as_tensor(encoded, device=self.device))

    # Training -------------------------------------------------------------------------------------

    def _train(self, X: Any, y: Any, epochs: int, *, more: bool = False) -> None:
        """Train for so many epochs from where it is; with `more`, another call is expected."""
        start = time.perf_counter()
        self.epochs_asked_ = epochs
        check_amounts(epochs, self.lr)  # they may have been set since it was made
        check_rates(self.optimizer_)
        check_workers(self.min_workers, self.max_workers, self.grads_per_worker)
        check_split(self.train_split)
        self._engine: Engine = as_engine(self.engine, self.min_workers)
        try:
            self.notify("on_train_begin", X=X, y=y)
            try:
                self.fit_loop(X, y, epochs)
            except KeyboardInterrupt:
                pass  # so does skorch's EarlyStopping end it
            finally:
                self.notify("on_train_end", X=X, y=y)
        finally:
            self._engine.close(keep_workers=more)
            del self._engine
        self.meta_["partial_fit__time"] += time.perf_counter() - start

    def _updates_of(self, dataset: Any) -> Updates:
        samples = samples_of(dataset, self._encode)
        options = self.get_params_for("batch_size")
        damper = damper_of(self.batch_size, options, self.max_batch_size, len(samples))
        self._watches = damper.observes
        if self.course_ is None:
            self.course_ = Course(self.seed_, type(damper), damper.init())
        elif type(damper) is not self.course_.kind:  # set_params has given another one
            self.course_.kind, self.course_.state = type(damper), damper.init()
        problem = Problem(self.module_, self._shaped_loss(), samples, self.device)
        self._engine.hold(problem)

        def measure(fields: frozenset[str], update: int) -> dict[str, Any]:
            if not fields & ON_THE_SET:
                return {}
            share = numbers(len(samples), damper.share, self.seed_, update)
            return on_the_set(self._engine, self._weights(), fields, share)

        return Updates(lambda: epoch(self.course_, damper, len(samples), measure))

    def _weights(self) -> dict[str, Tensor]:
        named = {**dict(self.module_.named_parameters()), **dict(self.module_.named_buffers())}
        return {name: value.detach() for name, value in named.items()}

    def train_step(self, batch: Update, **fit_params: Any) -> dict[str, Any]:
        """One update, at the learning rate times the damper's factor."""
        with damped_rates(self.optimizer_, batch.damping.lr_factor) as lr:
            step = super().train_step(batch, **fit_params)
        self._record(batch, lr)
        return step

    def train_step_single(self, batch: Update, **fit_params: Any) -> dict[str, Any]:
        """The gradient of a batch, by the engine, to where the optimizer looks for it.

        Raises:
            UserError: the loss is not finite.
        """
        samples, update = len(batch.indices), self.course_.updates
        workers = workers_for(samples, self.grads_per_worker, self.min_workers, self.max_workers)
        self._engine.scale(workers)
        size = self.grads_per_worker
        if "noise" in self._watches:
            size = min(size, max(1, samples // 2))  # from the difference between two parts
        seeds = (
            int(generator(self.seed_, PASS, k, update).integers(2**31)) for k in range(samples)
        )
        passes = [MicroBatch(part, next(seeds)) for part in parts(batch.indices, size)]
        total = self._engine.gradient(self._weights(), passes)
        loss = total.loss / total.samples
        if not np.isfinite(loss):
            raise UserError(
                f"the loss of update {update} is {loss}: training has diverged; lower lr, or look "
                "at X: for NaN, and at its scale"
            )
        put(self.module_, total)
        self.course_.note(total)
        return {"loss": torch.tensor(loss), "y_pred": None}

    def _record(self, batch: Update, lr: float) -> None:
        course, damping = self.course_, batch.damping
        self.meta_ |= {
            "n_updates": course.updates + 1,
            "n_data": course.samples + damping.batch,
            "epochs": (course.position + damping.batch) / course.population,
            "damping_": damping.damping,
            "batch_size_": damping.batch,
            "lr_": lr,
            "n_workers": self._engine.workers,
        }
        self.batch_size_, self.n_workers_ = damping.batch, self._engine.workers
        row = {"batch_size": damping.batch, "damping": damping.damping, "lr": lr}
        row |= {"n_workers": self._engine.workers, "epochs": self.meta_["epochs"]}
        for name, value in row.items():
            self.history.record_batch(name, value)

    def plot_schedule(self) -> Any:
        """Batch size, learning rate and workers of every update so far, a matplotlib Figure."""
        self.check_is_fitted()
        return picture.schedule(self.history)
