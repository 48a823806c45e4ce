"""Learning from documents of paperless-ngx, and labelling of new ones.

The labels of a document count as true if it has neither an inbox tag nor the review tag, because a person has then seen
it. The classifier of paperless assumes the same. A document is predicted once, when it is added. So the sidecar learns
labels that it assigned only after a person has removed the inbox tag or the review tag, and it never adds a tag again
that a person has removed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from manylabel_clients.http.client import Client
from manylabel_clients.http.errors import ApiError, NotFound
from manylabel_clients.http.responses import ModelStatus, Prediction
from manylabel_clients.integrations.paperless.archive import Archive, Catalogue, Document, PaperlessError, parse_time
from manylabel_clients.integrations.teacher import Taught, with_teacher

REVIEW_TAG = "manylabel-review"
MIN_LEARNT = 20
"""Number of documents learnt before the first is predicted."""
MAX_CHARACTERS = 90_000
"""Maximum characters of a document's text that are sent; the default limit of a server is 100,000."""
TEXT = {"fields": ["title", "content"]}
LIMITS = {"features": {"most": 100_000, "policy": "ignore"}}
"""Limits of a new model: scanned texts contain ever more misread words."""
REFUSED = (413, 422)
"""Statuses of requests that the server refuses because of their document."""
MIN_GROUP = 2
"""Minimum number of labels in a group."""
BEGINNING = "1970-01-01T00:00:00+00:00"


@dataclass
class Cursors:
    """Progress of the sidecar, which is stored in a file."""

    modified: str = BEGINNING
    added: str = BEGINNING
    predicted: list[int] = field(default_factory=list)
    """Ids of the documents added at the time `added`."""

    @classmethod
    def read(cls, path: Path, on_damage: Callable[[str], None]) -> Cursors | None:
        """Return the contents of a file; None if it does not exist. If the file is incomplete, call `on_damage` and
        return None. Raises PaperlessError for a file with other contents."""
        try:
            document = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            on_damage(str(error))
            return None
        except RecursionError:
            document = None
        try:
            found = cls(**document)
            for time in (found.modified, found.added):
                parse_time(time)
            if not all(type(id) is int for id in found.predicted):
                raise TypeError("predicted must contain ids")
        except (TypeError, ValueError, OverflowError) as error:
            action = "name another file with --state, or delete this one to begin from the first document"
            raise PaperlessError(f"{path} is not the progress of this sidecar ({error}): {action}") from error
        return found

    def write(self, path: Path) -> None:
        """Write a file atomically, even if the power fails."""
        new = path.with_name(f"{path.name}.new")
        with new.open("w") as file:
            file.write(json.dumps(asdict(self)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)


Teacher = Callable[[Any], Collection[str]]
"""Function that returns the labels of a document's fields, such as `LanguageModel`."""


class NoParity(Exception):
    """A teacher is set, but the model promises no parity."""


class Teaching(NamedTuple):
    """Teacher that labels documents of which the model is not sure."""

    teacher: Callable[[Mapping[str, str]], Teacher]
    """Returns the teacher for the titles of the labels; called again when these change."""
    parity: float
    """Agreement with the teacher that a new model promises, between 0 and 1."""


class Sidecar:
    """Sidecar of one paperless-ngx, with one model.

    Parameters
    ----------
    archive : client of the paperless-ngx.
    client : client of a server, with a key that has the scope admin for the model.
    model : name of the model, which is created if it does not exist.
    state : path of the file with the cursors.
    sure : probability from which a label is applied, if the model promises no precision.
    dry_run : whether to change nothing in paperless.
    report : callback for lines of output.
    teaching : teacher that labels documents of which the model is not sure; None without one.
    clock : returns the current time. A document with a future time waits until then.

    Raises
    ------
    PaperlessError
        If the file `state` has other contents.
    """

    def __init__(
        self,
        archive: Archive,
        client: Client,
        model: str,
        state: Path,
        sure: float,
        dry_run: bool = False,
        report: Callable[[str], None] = lambda line: None,
        teaching: Teaching | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._archive, self._client, self._model = archive, client, client.model(model)
        self._path, self._sure, self._dry_run, self._report = state, sure, dry_run, report
        self._known: Catalogue | None = None
        self._teaching = teaching
        self._taught: Taught | None = None
        self._clock = clock
        self._waiting = set[tuple[int, str]]()
        """Ids and times of reported documents with a time in the future."""
        self._cursors = Cursors.read(state, self._keep_damaged)

    def sync(self) -> None:
        """Predict added documents, then learn changed ones.

        Raises
        ------
        PaperlessError, ManyLabelError, OSError, NoParity
        """
        catalogue = self._archive.catalogue()
        self._describe(catalogue)
        if self._cursors is None:  # without inbox tags, existing documents count as seen by a person
            self._cursors = Cursors(added=BEGINNING if catalogue.inbox else self._clock().isoformat())
        status = self._model.status()
        predicts = isinstance(status, ModelStatus) and (self._taught is not None or status.updates >= MIN_LEARNT)
        review = catalogue.tags.get(REVIEW_TAG)
        if review is None and predicts and not self._dry_run:
            review = self._archive.create_tag(REVIEW_TAG)
        waiting = catalogue.inbox if review is None else catalogue.inbox | {review}
        if predicts:
            self._predict_all(catalogue, review)
        self._learn_all(catalogue, waiting, self._cursors.added if predicts and not catalogue.inbox else None)
        self._save()

    def _save(self) -> None:
        if self._cursors is not None and not self._dry_run:
            self._cursors.write(self._path)

    def _keep_damaged(self, reason: str) -> None:
        """Rename a damaged file of cursors."""
        names = (f"{self._path.name}.damaged{number or ''}" for number in count())
        damaged = next(path for path in map(self._path.with_name, names) if not path.exists())
        self._report(f"{self._path} is damaged ({reason}): all documents are read again; it becomes {damaged.name}")
        if not self._dry_run:
            self._path.replace(damaged)

    def _describe(self, catalogue: Catalogue) -> None:
        """Send titles of labels and groups to the model, if they have changed since the last time."""
        if self._known == catalogue:
            return
        self._create()
        if catalogue.titles:
            self._model.describe_labels({label: title[:256] for label, title in catalogue.titles.items()})
        groups = [
            {"name": kind, "labels": labels, "choose": "at_most_one"}
            for kind in ("correspondent", "type")
            if len(labels := catalogue.of(kind)) >= MIN_GROUP
        ]
        self._model.set_groups(groups, catalogue.parents)
        if self._teaching is not None:
            call = _choosing(self._teaching.teacher(catalogue.titles))
            self._taught = with_teacher(self._model, call, labels=catalogue.titles.keys())
        self._known = catalogue

    def _create(self) -> None:
        """Create the model if it does not exist."""
        options: dict[str, Any] = {"text": TEXT, "limits": LIMITS}
        if self._teaching is None:
            self._client.create_model(self._model.name, **options, exist_ok=True)
            return
        try:
            if "parity" not in (getattr(self._model.status(), "promise", None) or {}):
                raise NoParity(f"{self._model.name} promises no parity")
        except NotFound:
            promise = {"parity": self._teaching.parity}
            self._client.create_model(
                self._model.name, **options, sources={"machine": 1}, promise=promise, exist_ok=True
            )

    def _is_in_future(self, document: Document, time: str) -> bool:
        """Return whether the time of a document is in the future. Such documents must wait, because their time would
        hide all new documents."""
        if parse_time(time) <= self._clock():
            return False
        if (document.id, time) not in self._waiting:
            self._waiting.add((document.id, time))
            self._report(f"document {document.id}: its time {time} is in the future, so it waits until then")
        return True

    # -- learning ---------------------------------------------------------------------------------

    def _learn_all(self, catalogue: Catalogue, waiting: frozenset[int], through: str | None) -> None:
        """Learn the modified documents that do not wait for review, if they were added until a time."""
        assert self._cursors is not None
        learnt = 0
        for document in self._archive.documents("modified", self._cursors.modified):
            if self._is_in_future(document, document.modified):
                break
            if through is not None and parse_time(document.added) > parse_time(through):
                continue  # the next call predicts it first
            if not document.tags & waiting:
                labels = sorted(document.labels & catalogue.titles.keys())
                learnt += self._learn(document, labels)
            self._cursors.modified = document.modified
            if learnt % 100 == 99:
                self._save()
        if learnt:
            self._report(f"learnt {learnt:,} documents")

    def _learn(self, document: Document, labels: list[str]) -> bool:
        """Learn a document; return whether it was learnt for the first time."""
        key = f"paperless-{document.id}-{document.modified}"
        try:
            return not self._model.update(_example(document), labels, key=key).replayed
        except ApiError as error:
            self._skip(document, "learnt", error)
            return False

    def _skip(self, document: Document, done: str, error: ApiError) -> None:
        """Report a document that the server refused; raise any other error."""
        if error.status not in REFUSED:
            raise error
        self._report(f"document {document.id} is not {done}: {error}")

    # -- prediction -------------------------------------------------------------------------------

    def _predict_all(self, catalogue: Catalogue, review: int | None) -> None:
        assert self._cursors is not None
        for document in self._archive.documents("added", self._cursors.added):
            if self._is_in_future(document, document.added):
                break
            if document.id in self._cursors.predicted:
                continue
            if document.tags & catalogue.inbox or not catalogue.inbox:
                self._predict(document, catalogue, review)
            same = document.added == self._cursors.added
            self._cursors.predicted = [*(self._cursors.predicted if same else ()), document.id]
            self._cursors.added = document.added
            self._save()

    def _predict(self, document: Document, catalogue: Catalogue, review: int | None) -> None:
        try:
            labels, others = self._decided(document)
        except ApiError as error:
            self._skip(document, "predicted", error)
            return
        sure = [label for label in labels if label in catalogue.titles]
        add = [int(label[4:]) for label in sure if label.startswith("tag:") and label not in document.labels]
        has = {label.partition(":")[0] for label in document.labels}
        one_of: dict[str, int] = {}
        for label in sure:
            kind, _, id = label.partition(":")
            if kind != "tag" and kind not in has:
                one_of.setdefault(kind, int(id))
        unsure = [label for label in others if label not in sure and label in catalogue.titles]
        needs_review = bool(unsure) or not sure or not catalogue.inbox
        names = ", ".join(catalogue.titles[label] for label in sure) or "nothing"
        self._report(f"document {document.id}: sure of {names}{'; for review' if needs_review else ''}")
        if self._dry_run:
            return
        if needs_review and review is not None:
            add.append(review)
        self._archive.change(document.id, add, [], one_of)

    def _decided(self, document: Document) -> tuple[list[str], list[str]]:
        """Return the sure labels of a document, and all predicted labels."""
        if self._taught is None:
            prediction = self._model.predict(_example(document), probabilities=True)
            return self._sure_labels(prediction), prediction.labels
        (answer,) = self._taught.many([_example(document)])
        if answer.labels is None:
            self._report(f"document {document.id}: {answer.error}")
            return [], []
        return answer.labels, answer.labels

    def _sure_labels(self, prediction: Prediction) -> list[str]:
        """Return the labels of the model's promise, or without a promise the predicted labels of sufficient
        probability.
        """
        auto: list[str] | None = getattr(prediction, "auto", None)
        if auto is not None:
            return auto
        likely = prediction.probabilities or {}
        return [label for label in prediction.labels if likely.get(label, 0.0) >= self._sure]


def _choosing(call: Teacher) -> Teacher:
    """Return a teacher that rejects answers with more than one correspondent or more than one type."""

    def checked(x: Any) -> Collection[str]:
        labels = call(x)
        for kind in ("correspondent", "type"):
            if len({label for label in labels if label.startswith(f"{kind}:")}) > 1:
                raise ValueError(f"the teacher chose more than one {kind}")
        return labels

    return checked


def _example(document: Document) -> dict[str, str]:
    return {name: text[:MAX_CHARACTERS] for name, text in document.record.items()}
