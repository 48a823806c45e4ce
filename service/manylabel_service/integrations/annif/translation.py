"""Translation of Annif's documents and subjects to the records and labels of models, and back."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import ValidationError

from manylabel_core.records import RecordEncoder, RecordError
from manylabel_service.api.translation.from_json import LABELS, check_count, to_labels
from manylabel_service.api.web.problems import invalid
from manylabel_service.api.web.validation import Path, validated
from manylabel_service.hosting.examples import Example, Features
from manylabel_service.hosting.hosted_model import HostedModel
from manylabel_service.hosting.predictions import Prediction
from manylabel_service.integrations.annif import schemas
from manylabel_service.online.replica import Replica
from manylabel_service.online.state.label_details import LabelDetails
from manylabel_service.trained.inputs import as_features
from manylabel_service.trained.model import TrainedModel

TEXT = "text"
METADATA = "metadata_"
MAX_FORM_FIELDS = 110


def read_form(raw: bytes, limits: schemas.AnnifLimits) -> tuple[schemas.AnnifText, dict[str, str]]:
    """Return a text with its limits (default: the query parameters) and its metadata by name. Raises a Problem."""
    fields = [field for field in raw.split(b"&", MAX_FORM_FIELDS) if field]
    try:
        if raw.count(b"&") >= MAX_FORM_FIELDS:
            raise ValueError("too many fields")
        pairs = [(_unquoted(name), _unquoted(value)) for name, _, value in (field.partition(b"=") for field in fields)]
    except ValueError as error:
        raise invalid((), f"must be a form of at most {MAX_FORM_FIELDS} fields, in UTF-8") from error
    form = dict(pairs)
    if len(form) < len(pairs):
        raise invalid((), "must not repeat a field")
    metadata = {name.removeprefix(METADATA): form[name] for name in form if name.startswith(METADATA)}
    return validated(schemas.AnnifText, {**limits.model_dump(exclude_unset=True), **form}), metadata


_ESCAPES = re.compile(rb"(?:%[0-9A-Fa-f]{2})+")


def _unquoted(raw: bytes) -> str:
    """Return a decoded name or value of a form. urllib is not used, because it takes 80 times the bytes of the escapes
    in memory."""
    spaced = raw.replace(b"+", b" ")
    return _ESCAPES.sub(lambda found: bytes.fromhex(found[0].decode().replace("%", "")), spaced).decode()


class DocumentReader:
    """Translator of documents to features of a model.

    The text of a document becomes the text field of the model if it has exactly one, else the field `text`; metadata
    become other fields.
    """

    def __init__(self, records: RecordEncoder, max_features: int) -> None:
        known = records.text.fields or ()
        self._field = known[0] if len(known) == 1 else TEXT
        if self._field not in known:
            records = RecordEncoder(replace(records.text, fields=(*known, TEXT)), records.limits)
        self._records, self._max_features = records, max_features

    def features(self, text: str, metadata: Mapping[str, str] | None, at: Path) -> Features:
        """Return the features of a document. Raises a Problem with the field path."""
        if metadata and self._field in metadata:
            raise invalid((*at, "metadata", self._field), "must be absent: the text of the document has this name")
        try:
            record = self._records.read({self._field: text, **(metadata or {})})
        except RecordError as error:
            field = error.path[:1]
            place = () if not field else ("text",) if field == (self._field,) else ("metadata", *error.path)
            raise invalid((*at, *place), error.detail) from error
        if len(record.features) > self._max_features:
            raise invalid(at, f"must have at most {self._max_features:,} features, the limit of this server")
        return as_features(record)

    def example(self, item: Any, labels: Mapping[str, str], at: Path) -> Example:
        """Return a document to learn; `labels` has names of labels by URI. Raises a Problem with the field path."""
        if isinstance(item, dict):
            check_count(item.get("subjects"), (*at, "subjects"), self._records.limits.fields)
        document = validated(schemas.AnnifIndexed, item, at)
        names = dict.fromkeys(labels.get(subject.uri, subject.uri) for subject in document.subjects)
        try:
            y = to_labels(LABELS.validate_python(list(names)), (*at, "subjects"))
        except ValidationError as error:
            raise invalid((*at, "subjects"), "has a uri that is too long for a new label: at most 256 bytes") from error
        return Example(self.features(document.text, document.metadata, at), y)


def suggestions(hosted: HostedModel, of: Prediction, version: int | None, wanted: schemas.AnnifLimits) -> list[Any]:
    """Return the subjects of a prediction with probabilities, most probable first."""
    likely = of.probabilities or {}
    values = np.fromiter(likely.values(), dtype=np.float64, count=len(likely))
    order = np.argsort(-values, kind="stable")
    order = order[(values[order] > 0) & (values[order] >= wanted.threshold)][: wanted.limit]
    labels = list(likely)
    names = [labels[place] for place in order.tolist()]
    return [
        {"uri": about.uri or name, "label": about.title or name, "notation": None, "score": likely[name]}
        for name, about in zip(names, _details(hosted, names, version), strict=True)
    ]


def _details(hosted: HostedModel, names: Sequence[str], version: int | None) -> list[LabelDetails]:
    if isinstance(hosted, Replica):
        return [hosted.model.details[column] for column in hosted.model.labels.lookup(names)]
    assert isinstance(hosted, TrainedModel)
    known = {} if version is None else hosted.label_details(version)
    return [LabelDetails(**known.get(name, {})) for name in names]


def vocabulary(status: Mapping[str, Any]) -> schemas.AnnifVocabulary:
    """Return the labels of a model as a vocabulary, from its status."""
    loaded = status.get("loaded", True)
    size = status["labels"] if loaded else None
    return schemas.AnnifVocabulary(vocab_id=status["name"], languages=["und"], size=size, loaded=loaded)


def project(status: Mapping[str, Any]) -> schemas.AnnifProject:
    """Return a model as an Annif project."""
    learnt = status.get("updates") or status.get("version")
    return schemas.AnnifProject(
        project_id=status["name"],
        name=status["name"],
        language="und",
        backend=schemas.AnnifBackend(backend_id=status["algorithm"]),
        vocab=vocabulary(status),
        vocab_language="und",
        is_trained=bool(learnt) if status.get("loaded", True) else None,
        modification_time=None,
    )
