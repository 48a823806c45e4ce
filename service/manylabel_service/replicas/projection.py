"""What a model will have grown to once some examples are learnt, and whether they can be."""

from typing import NamedTuple

from manylabel_service.errors import InvalidExample
from manylabel_service.replicas.examples import Example, Labels
from manylabel_service.replicas.stream_model import StreamModel


class Growth(NamedTuple):
    """What a model gains by an update, or by several: columns, examples, and the values in them."""

    features: int = 0
    labels: int = 0
    examples: int = 0
    values: int = 0

    def plus(self, other: "Growth", sign: int = 1) -> "Growth":
        """Both together; with `sign` -1, this without the other."""
        return Growth(
            self.features + sign * other.features,
            self.labels + sign * other.labels,
            self.examples + sign * other.examples,
            self.values + sign * other.values,
        )


class Projection:
    """Examples tried on a model, one after the other, without learning them.

    Attributes
    ----------
    layout : of the features, after the examples so far.
    n_examples, n_values : how many examples, and how many values of features in them.
    """

    def __init__(self, model: StreamModel) -> None:
        self._model = model
        self._new_features: set[str] = set()
        self._new_labels: set[str] = set()
        self.layout = model.features.layout
        self.n_examples = 0
        self.n_values = 0

    @property
    def n_features(self) -> int:
        """Features that the model will have, at most."""
        return max(self.layout.size, len(self._model.features.names) + len(self._new_features))

    @property
    def n_labels(self) -> int:
        """Labels that the model will have, at most."""
        return len(self._model.labels) + len(self._new_labels)

    @property
    def growth(self) -> "Growth":
        """What the model will gain."""
        n_new_features = max(self.n_features - len(self._model.features), 0)
        return Growth(n_new_features, len(self._new_labels), self.n_examples, self.n_values)

    def check(self, example: Example) -> None:
        """Try the next example.

        Raises
        ------
        InvalidExample
            It cannot be learnt after those before it.
        """
        self._model.features.check(self.n_examples, example.x, self.layout)
        self._check_labels(example.y)
        self.layout = self.layout.after(example.x)
        self.n_examples += 1

    def add(self, example: Example) -> None:
        """Try the next example, and count what the model would gain by it; raises as `check`."""
        self.check(example)
        x, y = example
        if x.names is not None and not self.layout.declared:
            self._new_features.update(name for name in x.names if name not in self._model.features.names)
        self._new_labels.update(name for name in y.names if name not in self._model.labels)
        self.n_values += len(x.values)

    def _check_labels(self, y: Labels) -> None:
        if self._model.spec.labels is None:
            return
        for place, name in enumerate(y.names):
            if name not in self._model.labels:
                path = ("y", place if y.complete else name)
                raise InvalidExample(self.n_examples, path, "is not one of the labels declared for this model")
