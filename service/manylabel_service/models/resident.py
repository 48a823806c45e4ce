"""Models in memory, and which of them were used or have changed, so that periodic work need not walk over all."""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, ValuesView

from manylabel_service.environment import time
from manylabel_service.hosting.hosted_model import HostedModel
from manylabel_service.trained.model import TrainedModel


class ResidentModels(Mapping[str, HostedModel]):
    """Models in memory by name, least recently used first.

    A model whose functions were compiled late may come before models that were used earlier.

    Attributes
    ----------
    nbytes : memory of the models in bytes, as last measured.
    changed : models whose memory was not measured since their last change.
    used : models used since their use was recorded.
    followers : models that read the log of another model.
    trained : trained models.
    withheld : models that another release must serve.
    impaired : models that cannot serve all requests.
    arrivals : sets to which each added model is added, until it is removed from memory.
    """

    def __init__(self) -> None:
        self._models: OrderedDict[str, HostedModel] = OrderedDict()
        self._sizes: dict[HostedModel, int] = {}
        self.nbytes = 0
        self.changed: set[HostedModel] = set()
        self.used: set[HostedModel] = set()
        self.followers: set[HostedModel] = set()
        self.trained: set[HostedModel] = set()
        self.withheld: set[HostedModel] = set()
        self.impaired: set[HostedModel] = set()
        self.arrivals: list[set[HostedModel]] = []
        self._readers: dict[int, set[HostedModel]] = {}
        """Models by the incarnation of their record, and of the log that they read."""

    def __getitem__(self, name: str) -> HostedModel:
        return self._models[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)

    def values(self) -> ValuesView[HostedModel]:
        """Return the models, the least recently used first."""
        return self._models.values()

    def latest(self) -> Iterator[HostedModel]:
        """Return an iterator over the models, the most recently used first."""
        return reversed(self._models.values())

    def readers(self, incarnation: int) -> Collection[HostedModel]:
        """Return the model of an incarnation, and those that read its log."""
        return self._readers.get(incarnation, ())

    def has(self, model: HostedModel) -> bool:
        """Return whether a model is in memory under its name."""
        return self._models.get(model.name) is model

    def add(self, model: HostedModel, used_at: float | None = None) -> None:
        """Add a model, which replaces any other of its name.

        `used_at` is the time of its last use if it was restored without a request; it is then the least recently used.
        """
        if (other := self._models.get(model.name)) is not None:
            self.remove(other)
        self._models[model.name] = model
        if used_at is not None:
            model.used_at = used_at
            self._models.move_to_end(model.name, last=False)
        if not model.leads:
            self.followers.add(model)
        if isinstance(model, TrainedModel):
            self.trained.add(model)
        for arrived in self.arrivals:
            arrived.add(model)
        for incarnation in (model.record.incarnation, model.log_record.incarnation):
            self._readers.setdefault(incarnation, set()).add(model)
        self.note_changed(model)

    def remove(self, model: HostedModel) -> None:
        """Remove a model if it is in memory."""
        if not self.has(model):
            return
        del self._models[model.name]
        self.nbytes -= self._sizes.pop(model, 0)
        kinds = self.changed, self.used, self.followers, self.trained, self.withheld, self.impaired
        for some in (*kinds, *self.arrivals):
            some.discard(model)
        for incarnation in {model.record.incarnation, model.log_record.incarnation}:
            self._readers[incarnation].discard(model)
            if not self._readers[incarnation]:
                del self._readers[incarnation]

    def note_used(self, model: HostedModel) -> None:
        """Note that a request uses a model."""
        model.used_at = time.monotonic()
        if self.has(model):
            self._models.move_to_end(model.name)
            self.used.add(model)

    def note_changed(self, model: HostedModel) -> None:
        """Note that a model has learnt, loaded a version or failed to, or ended."""
        if self.has(model):
            self.changed.add(model)
            (self.impaired.add if model.impaired else self.impaired.discard)(model)
            if model.incompatible:
                self.withheld.add(model)

    def measure(self, model: HostedModel) -> None:
        """Measure the memory of a model."""
        self.changed.discard(model)
        nbytes = model.nbytes
        self.nbytes += nbytes - self.size(model)
        self._sizes[model] = nbytes

    def size(self, model: HostedModel) -> int:
        """Return the memory of a model as last measured; 0 if it is not in memory."""
        return self._sizes.get(model, 0)
