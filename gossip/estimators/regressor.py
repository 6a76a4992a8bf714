"""The estimator for numbers."""

from typing import Any

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import column_or_1d
from torch import nn

from gossip.damping import ConstantBatch
from gossip.errors import UserError
from gossip.estimators.data import all_targets, first_item, is_dataset
from gossip.estimators.net import DampedNet
from gossip.estimators.targets import OfNumbers, readable


class DampedRegressor(RegressorMixin, DampedNet):
    """A torch module as a regressor, trained with batches that grow.

    As `DampedClassifier`, with numbers for classes: the module gives [n] or [n, 1] where y is
    [n], and [n, k] where y is [n, k]; any other pair of shapes is refused, where torch would
    broadcast it. `score` is R^2.

    Args:
        module: as in `DampedClassifier`.
        loss: a class, made with `loss__x`; the mean over the samples.
        optimizer: as in `DampedClassifier`, and so are the others.
        lr: gamma_0; None: the optimizer's own.
        batch_size: samples of an update, or a damper.
        max_batch_size: where the batch stops growing.
        max_epochs: of `fit`.
        engine: "here", "dask" or a `distributed.Client`.
        min_workers: of a Dask cluster.
        max_workers: of a Dask cluster.
        grads_per_worker: samples for which a worker is asked for, and of one training pass.
        random_state: of weights, order of samples and Dropout.
        train_split: None, or skorch's `ValidSplit`.
        callbacks: skorch's.
        predict_nonlinearity: what outputs go through to become predictions; "auto": nothing.
        warm_start: whether `fit` goes on from where it is.
        verbose: whether a line of progress is shown.
        device: of torch, on every worker.
        **routed: `module__x`, `loss__x`, `optimizer__x`, `batch_size__x`, `callbacks__name__x`.

    Raises:
        UserError: in `fit`, for parameters or data that cannot be used.
    """

    def __init__(
        self,
        module: Any = None,
        loss: Any = nn.MSELoss,
        optimizer: Any = torch.optim.Adam,
        *,
        lr: float | None = None,
        batch_size: Any = ConstantBatch,
        max_batch_size: float | None = None,
        max_epochs: int = 20,
        engine: Any = "here",
        min_workers: int = 1,
        max_workers: int = 8,
        grads_per_worker: int = 128,
        random_state: Any = None,
        train_split: Any = None,
        callbacks: Any = None,
        predict_nonlinearity: Any = "auto",
        warm_start: bool = False,
        verbose: int = 0,
        device: str = "cpu",
        **routed: Any,
    ) -> None:
        super().__init__(
            module=module,
            loss=loss,
            optimizer=optimizer,
            lr=lr,
            batch_size=batch_size,
            max_batch_size=max_batch_size,
            max_epochs=max_epochs,
            engine=engine,
            min_workers=min_workers,
            max_workers=max_workers,
            grads_per_worker=grads_per_worker,
            random_state=random_state,
            train_split=train_split,
            callbacks=callbacks,
            predict_nonlinearity=predict_nonlinearity,
            warm_start=warm_start,
            verbose=verbose,
            device=device,
            routed=routed,
        )

    def fit(self, X: Any, y: Any = None) -> "DampedRegressor":
        """Train from new weights, for `max_epochs` epochs.

        Args:
            X: [n, features], [n, ...] or a torch data set of items (input, number).
            y: numbers, [n] or [n, k]; None with a data set.
        """
        goes_on = self.warm_start and self.initialized_
        X, y = self._taken(X, y, reset=not goes_on)
        if not goes_on:
            self.initialize()
        self._train(X, y, self.max_epochs)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> "DampedRegressor":
        """Train for one more epoch.

        Args:
            X: as in `fit`.
            y: as in `fit`.
        """
        begins = not self.initialized_
        X, y = self._taken(X, y, reset=begins)
        if begins:
            self.initialize()
        self._train(X, y, 1, more=True)
        self.meta_["partial_fit__calls"] += 1
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The module's outputs, [n] or [n, k]."""
        self.check_is_fitted()
        X = X if is_dataset(X) else self._checked_inputs(X, reset=False)
        outputs = DampedNet.predict_proba(self, X)
        return outputs.reshape(len(outputs), *self._target_shape)

    @property
    def predict_proba(self) -> Any:
        """There are no probabilities of numbers.

        Raises:
            AttributeError: always.
        """
        raise AttributeError(f"{type(self).__name__} predicts numbers: there is no predict_proba")

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R^2, 1 at best; y may be left away with a data set."""
        y = all_targets(X) if y is None and is_dataset(X) else y
        r2 = super().score(X, y, sample_weight)
        self.meta_["score__calls"] += 1
        return r2

    def _taken(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
        if is_dataset(X):
            first = first_item(X)
            sample, target = first
            if y is not None:
                check_consistent_length(X, y)
                target = _alike(target, np.asarray(y)[0])
        else:
            values = np.asarray(y).ravel().tolist()
            text = next((v for v in values if isinstance(v, str | bytes)), None)
            if text is not None:
                raise UserError(
                    f"y holds text ({text!r}) and {type(self).__name__} predicts "
                    "numbers: for classes take DampedClassifier"
                )
            X, y = self._checked_inputs(X, y, reset=reset, multi_output=True, y_numeric=True)
            y = column_or_1d(y, warn=True) if np.ndim(y) == 2 and np.shape(y)[1] == 1 else y
            y = y.astype(np.float64, copy=False)  # torch does not know every float of NumPy's
            sample, target = X[0], y[0]
        if reset:
            self._input_shape = tuple(np.shape(sample))
            self._target_shape = tuple(np.shape(target))
        return X, y

    @property
    def _num_outputs(self) -> int:
        return int(np.prod(self._target_shape, dtype=int))

    @property
    def _encode(self) -> None:
        return None

    def _shaped_loss(self) -> nn.Module:
        return OfNumbers(self.loss_)

    def _get_predict_nonlinearity(self) -> Any:
        if self.predict_nonlinearity == "auto":
            return readable
        return super()._get_predict_nonlinearity()


def _alike(of_item: Any, of_y: np.ndarray) -> np.ndarray:
    """The first target that is given beside a data set, which has to be the one in there."""
    numbers = np.ravel(np.asarray(of_item, dtype=np.float64))
    if numbers.size != of_y.size or not np.allclose(numbers, np.ravel(of_y), rtol=1e-3):
        raise UserError(
            f"y[0] is {of_y} and the target of item 0 of X is {np.asarray(of_item)}: give a data "
            "set without y, or with the y that its items have"
        )
    return of_y
