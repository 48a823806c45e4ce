"""The history of a run: all requests and responses of its clients.

Every example has a feature of its own, its name, by which it is found again in the log.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


class Violation(AssertionError):
    """A promise of the service was broken, as a client saw it."""


@dataclass
class History:
    """The history keeps what all clients of a run sent and were told.

    Attributes
    ----------
    acknowledged : the position each example's update was answered with; None when the answer does not say it.
    sent : every example ever sent to be learnt.
    rollbacks : the position each acknowledged rollback was answered with, by its key.
    statuses : how often each operation was answered how; 0 stands for no answer.
    stale : predictions made while Redis was gone.
    replayed : keyed updates that turned out to have been learnt in an earlier attempt.
    """

    acknowledged: dict[str, str | None] = field(default_factory=dict)
    sent: set[str] = field(default_factory=set)
    rollbacks: dict[str, str] = field(default_factory=dict)
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    stale: int = 0
    replayed: int = 0

    def acknowledge(self, names: Sequence[str], position: str | None) -> None:
        for name in names:
            if name in self.acknowledged:
                raise Violation(f"{name} was answered twice")
            self.acknowledged[name] = position

    def of(self, model: str) -> "History":
        """Return the part about one model; names begin with it."""
        begin = f"{model}/"
        return History(
            {name: position for name, position in self.acknowledged.items() if name.startswith(begin)},
            {name for name in self.sent if name.startswith(begin)},
            {key: position for key, position in self.rollbacks.items() if key.startswith(begin)},
        )

    def __str__(self) -> str:
        """Return how often each operation was answered how, an operation a line."""
        rows: dict[str, list[str]] = {}
        for (operation, status), count in sorted(self.statuses.items()):
            rows.setdefault(operation, []).append(f"{status}: {count}")
        lines = [f"{operation:16} {', '.join(row)}" for operation, row in rows.items()]
        return "\n".join([*lines, f"{len(self.acknowledged)} examples, {self.replayed} replays, {self.stale} stale"])
