"""Models of a ManyLabel server as river classifiers."""

import weakref
from collections.abc import Hashable, Iterator
from typing import Any, Self

import numpy as np
from river import base

from manylabel_clients.http.client import Client
from manylabel_clients.http.resources.models import Model
from manylabel_clients.http.responses import Explanation
from manylabel_clients.http.transport.connections import DEFAULT_URL
from manylabel_clients.http.transport.credentials import Secret
from manylabel_clients.river.batches import frame_of, pairs_of, rows_of
from manylabel_clients.river.encoding import (
    PredictedLabels,
    PredictedProbabilities,
    both,
    named_truths,
    named_values,
)


class RemoteModel(base.MultiLabelClassifier):
    """Model of a ManyLabel server as a multi-label classifier of river.

    `learn_one` sends an update and returns when the server has learnt it, `predict_one` requests a prediction. It works
    in pipelines and in `evaluate.progressive_val_score`, with two requests per example; for streams, `feed` is many
    times faster, and the server computes metrics.

    The model is on the server. A clone, a deep copy or an unpickled copy is therefore another handle of the same model.
    Cloning resets nothing, and all handles share the learnt state.

    As in river, the `y` of `learn_one` may list some labels only; the others are unknown for that example.
    Features and labels may appear at any time, unless the model declares them.

    Parameters
    ----------
    server : str or Client
        Address of the server, or a client with your own timeouts, retries and headers. With an address, the object
        can be pickled, and creates a client that is closed with it.
    name : str
        Name of an existing model; `Client.create_model` creates one.
    api_key : str or Secret, optional
        API key for an address; a client has its own. It is not pickled: the process that unpickles the model reads it
        from the environment variable ``MANYLABEL_API_KEY``.

    Raises
    ------
    TypeError
        A value cannot be written as JSON, or a name is not a string; from `learn_one` and predictions.
    ValueError
        A value is not finite, or both a client and an `api_key` are passed.
    ManyLabelError
        The server cannot be reached, or rejects the call; see `manylabel_clients.http.errors`.

    Examples
    --------
    >>> from manylabel_clients import Client
    >>> from river import datasets, evaluate, metrics
    >>> client = Client(url)
    >>> _ = client.create_model("genes", algorithm="falt")
    >>> model = RemoteModel(client, "genes")
    >>> metric = metrics.multioutput.MicroAverage(metrics.F1())
    >>> evaluate.progressive_val_score(datasets.Yeast().take(300), model, metric)
    MicroAverage(F1): 60.82%
    >>> client.close()
    """

    def __init__(self, server: str | Client, name: str, api_key: str | Secret | None = None) -> None:
        if api_key is not None and not isinstance(server, str):
            raise ValueError("api_key applies to an address; set the key of the client instead")
        self.server = server
        self.name = name
        self.api_key = Secret(api_key) if isinstance(api_key, str) else api_key  # river shows parameters
        self._model: Model | None = None

    @property
    def model(self) -> Model:
        """Model of the client, with all its calls: metrics, status, batches."""
        if self._model is None:
            client = self.server
            if isinstance(client, str):
                client = Client(client, api_key=self.api_key)
                weakref.finalize(self, client.close)
            self._model = client.model(self.name)
        return self._model

    def learn_one(self, x: dict[Hashable, Any], y: dict[Hashable, bool], w: float = 1.0) -> None:
        """Learn one example on the server, with the sample weight `w`."""
        self.model.update(named_values(x), named_truths(y), weight=None if w == 1.0 else w)

    def predict_one(self, x: dict[Hashable, Any], **kwargs: Any) -> dict[Hashable, bool]:
        """Return True or False for each label of the model, or for the best `max_scores` labels: whether it is
        predicted.

        Before the first update, the result is empty.
        """
        prediction = self.model.predict(named_values(x))
        relevant = set(prediction.labels)
        return PredictedLabels((label, label in relevant) for label in prediction.scores)

    def predict_proba_one(self, x: dict[Hashable, Any], **kwargs: Any) -> dict[Hashable, dict[bool, float]]:
        """Return the probabilities of all labels that the server knows; raise Invalid if the model has none."""
        likely = self.model.predict(named_values(x), probabilities=True).probabilities
        return PredictedProbabilities((label, both(p)) for label, p in (likely or {}).items())

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn the rows of data frames in their order, like `learn_one`."""
        pairs = pairs_of(X, y)
        weights = [None] * len(pairs) if w is None else np.asarray(w).tolist()
        if len(weights) != len(pairs):
            raise ValueError(f"w must have {len(pairs)} numbers, one per row of X, not {len(weights)}")
        examples = [
            (named_values(x), named_truths(truth)) if own is None else (named_values(x), named_truths(truth), own)
            for (x, truth), own in zip(pairs, weights, strict=True)
        ]
        self.model.update_many(examples)

    def predict_many(self, X: Any) -> Any:
        """Return the predictions for a data frame, with a column of booleans for each label."""
        predictions = self.model.predict_many([named_values(x) for x in rows_of(X, "X")])
        relevant = [set(prediction.labels) for prediction in predictions]
        labels = dict.fromkeys(label for prediction in predictions for label in prediction.scores)
        return frame_of({label: np.array([label in one for one in relevant]) for label in labels}, X)

    def predict_proba_many(self, X: Any) -> Any:
        """Return the probability of each label in each row of a data frame, as a data frame with a column for each
        label."""
        predictions = self.model.predict_many([named_values(x) for x in rows_of(X, "X")], probabilities=True)
        likely = [prediction.probabilities or {} for prediction in predictions]
        labels = dict.fromkeys(label for one in likely for label in one)
        return frame_of({label: np.array([one.get(label, 0.0) for one in likely]) for label in labels}, X)

    def explain_one(self, x: dict[Hashable, Any], k: int = 5) -> dict[Hashable, Explanation]:
        """Return for each label that the server predicts the `k` features with the largest contributions for and
        against it."""
        found = self.model.predict(named_values(x), explain=k).explanations or {}
        return {label: explanation for label, explanation in found.items()}  # noqa: C416 - of any key

    def clone(self, new_params: dict[str, Any] | None = None, include_attributes: bool = False) -> Self:
        """Return another handle of the same model, or of the model that `new_params` name."""
        return type(self)(**{"server": self.server, "name": self.name, "api_key": self.api_key, **(new_params or {})})

    def __copy__(self) -> Self:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.clone()

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        if not isinstance(self.server, str):
            raise TypeError("a RemoteModel on a Client cannot be pickled: pass the server's address instead")
        return type(self), (self.server, self.name)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, str]]:
        yield {"server": DEFAULT_URL, "name": "model"}

    @property
    def _raw_memory_usage(self) -> int:
        """Bytes of the model on the server; river shows them as memory."""
        return self.model.status().bytes
