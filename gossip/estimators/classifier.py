"""The estimator for classes."""

from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import nn

from gossip.damping import ConstantBatch
from gossip.errors import UserError
from gossip.estimators.data import Encode, all_targets, class_numbers, first_item, is_dataset
from gossip.estimators.net import DampedNet
from gossip.estimators.targets import OfClasses, first, probabilities, readable


class DampedClassifier(ClassifierMixin, DampedNet):
    r"""A torch module as a classifier, trained with batches that grow.

    Update k takes B_k samples and the learning rate gamma_k that the damper says
    (`gossip.damping`); the gradient is the mean over all of them, whoever computes it.

    Args:
        module: a class of torch modules, made with `module__x`; it gives [n, classes]. An instance
            is copied. None: a perceptron of the size of the data, its layers `module__widths`.
        loss: a class, made with `loss__x`; the mean over the samples. CrossEntropyLoss of logits,
            NLLLoss of their logarithms, BCEWithLogitsLoss of one output for two classes.
        optimizer: a class of torch.optim, made with `optimizer__x`.
        lr: gamma_0; None: the optimizer's own.
        batch_size: samples of an update: a number, or a damper's class (made with `batch_size__x`,
            from 32 samples on, or all if they are fewer), instance or name.
        max_batch_size: where the batch stops growing and the learning rate falls in its place;
            None: N.
        max_epochs: of `fit`.
        engine: who computes: "here", "dask" (the current client, or a cluster of processes here),
            or a `distributed.Client`.
        min_workers: of a Dask cluster.
        max_workers: of a Dask cluster.
        grads_per_worker: samples for which a worker is asked for, P = ceil(B / grads_per_worker);
            and of one training pass, which is BatchNorm's batch. The update depends on it, if the
            module has BatchNorm or Dropout or the loss class weights, but never on the number of
            workers.
        random_state: of weights, order of samples and Dropout.
        train_split: None, or skorch's `ValidSplit`: what is held out for `valid_loss`.
        callbacks: skorch's, such as `EarlyStopping`. One that scores on the training set needs
            `use_caching=False`.
        predict_nonlinearity: from outputs to probabilities; "auto": what belongs to the loss.
        warm_start: whether `fit` goes on from where it is.
        verbose: whether a line of progress is shown.
        device: of torch, on every worker.
        **routed: `module__x`, `loss__x`, `optimizer__x`, `batch_size__x`, `callbacks__name__x`.

    Raises:
        UserError: in `fit`, for parameters or data that cannot be used.

    Reference: Sievert and Shah, "Training machine learning models faster with Dask", SciPy 2021,
    whose published estimators take the first B samples for ever and score by a loss.
    """

    def __init__(
        self,
        module: Any = None,
        loss: Any = nn.CrossEntropyLoss,
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

    def fit(self, X: Any, y: Any = None) -> "DampedClassifier":
        """Train from new weights, for `max_epochs` epochs.

        Args:
            X: [n, features], [n, ...] or a torch data set of items (input, class).
            y: classes, [n], of any kind; None with a data set.
        """
        goes_on = self.warm_start and self.initialized_
        X, y = self._taken(X, y, None, reset=not goes_on)
        if not goes_on:
            self.initialize()
        self._train(X, y, self.max_epochs)
        return self

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> "DampedClassifier":
        """Train for one more epoch.

        Args:
            X: as in `fit`.
            y: as in `fit`.
            classes: all there will ever be, in the first call; None: those of y.
        """
        begins = not self.initialized_
        X, y = self._taken(X, y, classes, reset=begins)
        if begins:
            self.initialize()
        self._train(X, y, 1, more=True)
        self.meta_["partial_fit__calls"] += 1
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each of `classes_`, [n, classes]."""
        self.check_is_fitted()
        X = X if is_dataset(X) else self._checked_inputs(X, reset=False)
        return super().predict_proba(X)

    def predict(self, X: Any) -> np.ndarray:
        """The most likely class of each sample, [n]."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return self.classes_[likeliest]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy; y may be left away with a data set."""
        y = all_targets(X) if y is None and is_dataset(X) else y
        accuracy = super().score(X, y, sample_weight)
        self.meta_["score__calls"] += 1
        return accuracy

    def _taken(self, X: Any, y: Any, classes: Any, *, reset: bool) -> tuple[Any, Any]:
        if is_dataset(X):
            self._shape_of(first_item(X)[0], reset=reset)
            labels = all_targets(X) if y is None else np.asarray(y)
            check_consistent_length(X, labels)
            check_classification_targets(labels)
        else:
            X, labels = self._checked_inputs(X, y, reset=reset, multi_output=False)
            self._shape_of(X[0], reset=reset)
            check_classification_targets(labels)
            y = labels = column_or_1d(labels)
        if reset:
            self.classes_ = np.unique(labels if classes is None else classes)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise UserError(
                f"classes={np.unique(classes).tolist()} are not those that training began with, "
                f"{self.classes_.tolist()}: give all to the first partial_fit, and the same or "
                "none to those that follow"
            )
        unknown = np.setdiff1d(labels, self.classes_).tolist()
        if unknown:
            raise UserError(
                f"y has the class {unknown[0]!r}, which is none of the {len(self.classes_)} that "
                "training began with: give all to the first partial_fit, classes=..."
            )
        if len(self.classes_) < 2:
            raise UserError(
                f"y has one class, {self.classes_.tolist()[0]!r}: there is nothing to tell apart; "
                "give samples of at least two"
            )
        return X, y

    def _shape_of(self, sample: Any, *, reset: bool) -> None:
        if reset:
            self._input_shape = tuple(np.shape(sample))

    @property
    def _num_outputs(self) -> int:
        return len(self.classes_)

    @property
    def _encode(self) -> Encode:
        return partial(class_numbers, self.classes_)

    def _shaped_loss(self) -> nn.Module:
        return OfClasses(self.loss_, len(self.classes_))

    def _get_predict_nonlinearity(self) -> Any:
        if self.predict_nonlinearity == "auto":
            return lambda outputs: probabilities(self.loss_, readable(first(outputs)))
        return super()._get_predict_nonlinearity()
