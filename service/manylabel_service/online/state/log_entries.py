"""Log entries, an Update or a `Control`, as bytes and back.

An entry is a msgpack array, [format, kind, key, digest, ...]. A rollback continues with [to], a relabel with [label,
to, merges], followed by `paused` if the label is paused or resumed, a describe with [{label: {field: text or null}}], a
regroup with [[[name, labels, choose], ...], {child: parent}], a promise with [[precision, settled, missed, audit rate]
or null], followed by [parity, source, agreement, audit rate] if parity is promised, served predictions with [version,
[[id, rate], ...], counts, now_ms, expires_ms], a dismissal with [kind, label, other label or null], an undo with
[position, position before it, kind, facts, flag] (see `undo`), an update with [want_predictions, want_probabilities,
origin, examples]. An origin is null or [prediction ids, served scores, stream key, stream lines], followed by
[[versions, [version, label names], ...], decisions], each possibly null, if versions of a trained model served or
something was promised, then by the last line, if it was forgotten. A decision is null or bytes; if parity was promised,
a pair [decision on labels, deferral]. An example is [names, indices, values, label names, signs, complete], then its
weight, the source of its labels, its vectors, {field: values}, and its reference; defaults at the end (1, "human",
null) are omitted. A correction continues with [position, index, label names or null, examples], with one example or
none. If the source of the labels so far is not human, it comes before the examples. The format is the number since
which entries have this layout.

Numbers are little-endian float32 (values), int32 (indices) and int8 (signs), so an entry replays to the same bits on
every machine. Decoding executes no code from an entry, and accepts only the output of `encode`.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, get_args

import msgpack
import numpy as np
from numpy.typing import NDArray

from manylabel_core.parity import Deferral
from manylabel_core.promise import Decision
from manylabel_core.rows import MAX_EXAMPLE_WEIGHT, MAX_MAGNITUDE
from manylabel_service.errors import ReleaseTooOld, UnreadableEntry
from manylabel_service.hosting.examples import MAX_REF_BYTES, Example, Features, Labels, Source
from manylabel_service.idempotency import FORGOTTEN, MAX_KEY_BYTES, IdempotencyKey
from manylabel_service.online.state.controls import CONTROLS, Control, Served
from manylabel_service.online.state.corrections import Corrects
from manylabel_service.online.state.served_metrics import ServedBy
from manylabel_service.online.state.stream_offsets import StreamPart
from manylabel_service.online.state.undo import Undo
from manylabel_service.release import FORMAT
from manylabel_service.storage import position_key

LARGEST = float(np.float32(MAX_MAGNITUDE))
"""Maximum absolute value of a number of a vector, which is a float32."""

_FORMAT = 1
_UPDATE, _CORRECTION = 0, 7
"""Codes of an update, and of an update that corrects an example; control entries have other codes."""


class Update(NamedTuple):
    """Log entry of an update: examples to learn in order, and the requested contents of the response.

    `want_probabilities` needs `want_predictions`. If the update labels stored predictions, `prediction_ids` has one id
    per example, and no prediction gets the same label twice. Then `served` has the served scores: a float64 array per
    example, with the score of each label minus its threshold, NaN for none. For a trained model, `answered` names the
    version that served each prediction, and the scores are for the labels of that version. `decisions` are the
    decisions served with the scores, if precision was promised; `deferrals` are the served deferrals, if parity was
    promised. An update that corrects a learnt example (`corrects`) has at most one example, no predictions and no
    stream.
    """

    examples: tuple[Example, ...]
    key: IdempotencyKey | None = None
    want_predictions: bool = False
    prediction_ids: tuple[str, ...] | None = None
    stream: StreamPart | None = None
    want_probabilities: bool = False
    served: tuple[NDArray[np.float64], ...] | None = None
    answered: tuple[ServedBy, ...] | None = None
    decisions: tuple[Decision | None, ...] | None = None
    deferrals: tuple[Deferral | None, ...] | None = None
    corrects: Corrects | None = None

    def without(self, indices: Container[int]) -> "Update":
        """Return the update without the examples at these indices."""
        left = [index for index in range(len(self.examples)) if index not in indices]
        ids, stream, served, answered = self.prediction_ids, self.stream, self.served, self.answered
        decisions, deferrals = self.decisions, self.deferrals
        return self._replace(
            examples=tuple(self.examples[index] for index in left),
            prediction_ids=None if ids is None else tuple(ids[index] for index in left),
            served=None if served is None else tuple(served[index] for index in left),
            answered=None if answered is None else tuple(answered[index] for index in left),
            decisions=None if decisions is None else tuple(decisions[index] for index in left),
            deferrals=None if deferrals is None else tuple(deferrals[index] for index in left),
            stream=None if stream is None else StreamPart(stream.key, tuple(stream.lines[index] for index in left)),
        )

    def forgetting(self, indices: Container[int]) -> "Update":
        """Return the update without the examples at these indices, which are to be forgotten.

        A repeated request is still recognised by its key, regardless of its body, and by the lines of its stream.
        """
        left = self.without(indices)
        stream = self.stream and left.stream and left.stream._replace(through=self.stream.last)
        key = self.key and self.key._replace(digest=FORGOTTEN)
        return left._replace(stream=stream, key=key, want_predictions=False, want_probabilities=False, corrects=None)


def as_followed(change: "Change") -> "Change":
    """Return the change for a follower, without the predictions that the leader served."""
    if isinstance(change, Served):
        return change.as_followed()
    if not isinstance(change, Update):
        return change
    corrects = change.corrects and change.corrects._replace(source="human")
    return change._replace(served=None, answered=None, decisions=None, deferrals=None, corrects=corrects)


Change = Update | Control
"""Change of a model in a log entry."""


def encode(change: Change) -> bytes:
    """Return the entry of a change; raise the errors of `encode_head`."""
    if isinstance(change, Update):
        return encode_head(change) + b"".join(map(encode_example, change.examples))
    head = (_FORMAT, change.code, *_packed_key(change.key))
    packed: bytes = msgpack.packb((*head, *change.facts))
    return packed


def encode_head(update: Update) -> bytes:
    """Return the entry of an update without its examples, which `encode_example` appends.

    Raises
    ------
    ValueError
        If the numbers of ids, served scores or lines differ from that of the examples, the lines do not ascend from 1,
        probabilities are requested without predictions, or the idempotency key is too long.
    """
    _check(update)
    if update.corrects is not None:
        *facts, source = update.corrects
        facts += [] if source == "human" else [source]
        return _packed_head((_FORMAT, _CORRECTION, *_packed_key(update.key), *facts), len(update.examples))
    origin: tuple[Any, ...] | None = None
    if update.prediction_ids is not None or update.stream is not None:
        key, lines, through = update.stream or (None, None, None)
        origin = (update.prediction_ids, _packed_scores(update.served), key, lines)
        decided = _packed_decisions(update)
        if not (update.answered is None and decided is None and through is None):
            by = update.answered
            versions = None if by is None else [[each.version for each in by], *dict(by).items()]
            origin = (*origin, versions, decided)
            if through is not None:
                origin = (*origin, through)
    wants = (update.want_predictions, update.want_probabilities)
    return _packed_head((_FORMAT, _UPDATE, *_packed_key(update.key), *wants, origin), len(update.examples))


def _packed_head(head: tuple[Any, ...], n_examples: int) -> bytes:
    """Return an entry with these fields, without its examples, which are its last field."""
    packer = msgpack.Packer()
    fields = b"".join(map(packer.pack, head))
    entry: bytes = packer.pack_array_header(len(head) + 1) + fields + packer.pack_array_header(n_examples)
    return entry


def encode_example(example: Example) -> bytes:
    """Return an example in the format of a log entry."""
    packed: bytes = msgpack.packb(_pack(*example))
    return packed


def decode(payload: bytes) -> Change:
    """Decode an entry.

    Raises
    ------
    ReleaseTooOld
        The entry has a format of a newer release.
    UnreadableEntry
        The bytes are not an entry.
    """
    try:
        format, *fields = msgpack.unpackb(payload)
        if type(format) is int and format > FORMAT:
            raise ReleaseTooOld(f"the log has an entry of format {format}; this release reads up to format {FORMAT}")
        if format != _FORMAT:
            raise ValueError(f"the format of an entry must be {_FORMAT!r}, not {format!r}")
        kind, key, digest, *facts = fields
        if kind not in _READERS:
            raise ValueError(f"the kind of an entry is unknown: {kind!r}")
        return _READERS[kind](_key(key, digest), *facts)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise UnreadableEntry(f"entry is damaged: {error}") from error


def _update(
    key: IdempotencyKey | None,
    want_predictions: bool,
    want_probabilities: bool,
    origin: list[Any] | None,
    examples: list[list[Any]],
) -> Update:
    ids, served, stream, lines, *more = origin or (None, None, None, ())
    versions, decisions, through = (*more, None, None, None)[:3]
    read = None if decisions is None else [read_decisions(packed) for packed in decisions]
    deferrals = None if read is None else tuple(deferral for _, deferral in read)
    update = Update(
        tuple(_unpack(*example) for example in examples),
        key,
        want_predictions,
        prediction_ids=None if ids is None else tuple(ids),
        stream=None if stream is None else StreamPart(stream, tuple(lines), through),
        want_probabilities=want_probabilities,
        served=None if served is None else tuple(np.frombuffer(row, dtype="<f8") for row in served),
        answered=None if versions is None else _answered(*versions),
        decisions=None if read is None else tuple(decision for decision, _ in read),
        deferrals=deferrals if deferrals and any(each is not None for each in deferrals) else None,
    )
    _check(update)
    return update


def _correction(key: IdempotencyKey | None, position: str, index: int, labels: list[str] | None, *more: Any) -> Update:
    *sources, examples = more
    source: Source = sources[0] if sources else "human"
    position_key(position)
    if type(index) is not int or index < 0 or not all(isinstance(label, str) for label in labels or ()):
        raise ValueError("a correction must have the index of an example and names of labels")
    if len(sources) > 1 or source not in get_args(Source):
        raise ValueError("a correction must have one known source of labels")
    corrects = Corrects(position, index, None if labels is None else tuple(labels), source)
    update = Update(tuple(_unpack(*example) for example in examples), key, corrects=corrects)
    _check(update)
    return update


def _answered(versions: list[int], *labels: list[Any]) -> tuple[ServedBy, ...]:
    """Return the version that served each example, listing the labels of each version only once."""
    known = {int(version): ServedBy(int(version), tuple(names)) for version, names in labels}
    try:
        return tuple(known[version] for version in versions)
    except KeyError as error:
        raise ValueError(f"the labels of version {error} are missing") from error


_CONTROLS: tuple[type[Control], ...] = (*CONTROLS, Undo)
_READERS: dict[int, Callable[..., Change]] = {
    _UPDATE: _update,
    _CORRECTION: _correction,
    **{kind.code: kind.read for kind in _CONTROLS},
}


def _key(key: str | None, digest: bytes | None) -> IdempotencyKey | None:
    return None if key is None or digest is None else IdempotencyKey(key, digest)


def _packed_key(key: IdempotencyKey | None) -> tuple[str | None, bytes | None]:
    if key is not None and len(key.key.encode()) > MAX_KEY_BYTES:
        raise ValueError(f"an idempotency key must have at most {MAX_KEY_BYTES} bytes")
    return key or (None, None)


def _check(update: Update) -> None:
    if update.want_probabilities and not update.want_predictions:
        raise ValueError("probabilities require predictions")
    n_examples = len(update.examples)
    others = update.want_predictions, update.prediction_ids, update.stream
    if update.corrects is not None and (n_examples > 1 or any(others)):
        raise ValueError("a correction must have at most one example, no predictions and no stream")
    for kept in (update.prediction_ids, update.served):
        if (kept is None) != (update.prediction_ids is None) or (kept is not None and len(kept) != n_examples):
            raise ValueError(
                f"{n_examples} examples need {n_examples} ids of predictions, and {n_examples} served scores"
            )
    for decisions in (update.decisions, update.deferrals):
        if decisions is not None and len(decisions) != len(update.served or ()):
            raise ValueError("each served prediction must have a decision or null")
    if update.answered is not None:
        widths = [len(answered.labels) for answered in update.answered]
        if widths != [len(scores) for scores in update.served or ()]:
            raise ValueError("each served prediction must have a score for each label of its version")
    if update.stream is None:
        return
    lines, through = update.stream.lines, update.stream.through
    ends = lines if through is None else (*lines[-1:], through)
    bounded = len(lines) == n_examples and ends and min((*lines[:1], *ends)) >= 1 and ends[-1] == max(ends) < 2**63
    if not bounded or any(a >= b for a, b in pairwise(lines)):
        raise ValueError(f"{n_examples} examples need {n_examples} line numbers, ascending from 1, below 2^63")


def _packed_scores(served: Sequence[NDArray[np.float64]] | None) -> list[bytes] | None:
    return None if served is None else [scores.astype("<f8", copy=False).tobytes() for scores in served]


_PackedDecisions = bytes | list[bytes | None] | None


def _packed_decisions(update: Update) -> list[_PackedDecisions] | None:
    if update.decisions is None and update.deferrals is None:
        return None
    nothing = (None,) * len(update.examples)
    pairs = zip(update.decisions or nothing, update.deferrals or nothing, strict=True)
    return [pack_decisions(decision, deferral) for decision, deferral in pairs]


def pack_decisions(decision: Decision | None, deferral: Deferral | None) -> _PackedDecisions:
    """Return the value that msgpack stores for a decision on labels and a deferral."""
    packed = [None if one is None else one.values.astype("<f8", copy=False).tobytes() for one in (decision, deferral)]
    return packed[0] if deferral is None else packed


def read_decisions(packed: _PackedDecisions) -> tuple[Decision | None, Deferral | None]:
    """Return the decisions written by `pack_decisions`; raise ValueError or TypeError for other values."""
    decision, deferral = packed if isinstance(packed, list) else (packed, None)
    return (
        None if decision is None else Decision(np.frombuffer(decision, dtype="<f8")).check(),
        None if deferral is None else Deferral(np.frombuffer(deferral, dtype="<f8")).check(),
    )


def _pack(x: Features, y: Labels, weight: float, source: str, ref: str | None) -> list[object]:
    fields: list[object] = [
        x.names,
        None if x.indices is None else x.indices.astype("<i4", copy=False).tobytes(),
        x.values.astype("<f4", copy=False).tobytes(),
        y.names,
        y.signs.tobytes(),
        y.complete,
    ]
    vectors = pack_vectors(x)
    if ref is not None:
        return [*fields, weight, source, vectors, ref]
    if vectors is not None:
        return [*fields, weight, source, vectors]
    if source != "human":
        return [*fields, weight, source]
    return fields if weight == 1.0 else [*fields, weight]


def pack_vectors(x: Features) -> dict[str, bytes] | None:
    """Return the nonempty vectors of an example as bytes by field name, or None."""
    return (
        {name: v.astype("<f4", copy=False).tobytes() for name, v in x.vectors.items() if len(v)} if x.vectors else None
    )


def unpack_vectors(packed: Mapping[str, bytes] | None = None) -> dict[str, NDArray[np.float32]] | None:
    """Return vectors written by `pack_vectors`; raise ValueError or TypeError for other bytes."""
    if packed is None:
        return None
    vectors = {name: np.frombuffer(raw, dtype="<f4") for name, raw in packed.items()}
    for name, vector in vectors.items():
        if not (isinstance(name, str) and (np.abs(vector) <= LARGEST).all()):
            raise ValueError("vectors must contain finite numbers, and have names of fields")
    return vectors


def _unpack(
    names: list[str] | None,
    indices: bytes | None,
    values: bytes,
    labels: list[str],
    signs: bytes,
    complete: bool,
    weight: float = 1.0,
    source: Source = "human",
    vectors: dict[str, bytes] | None = None,
    ref: str | None = None,
) -> Example:
    if not (ref is None or (isinstance(ref, str) and len(ref.encode()) <= MAX_REF_BYTES)):
        raise ValueError(f"a reference must be a string of at most {MAX_REF_BYTES} bytes")
    if source not in get_args(Source):
        raise ValueError("a source must be human, machine or rule")
    if type(weight) is not float or not 0.0 < weight <= MAX_EXAMPLE_WEIGHT:
        raise ValueError(f"a weight must be above 0 and at most {MAX_EXAMPLE_WEIGHT:g}")
    x = Features(
        names=None if names is None else tuple(names),
        indices=None if indices is None else np.frombuffer(indices, dtype="<i4"),
        values=np.frombuffer(values, dtype="<f4"),
        vectors=unpack_vectors(vectors),
    )
    return Example(x, Labels(tuple(labels), np.frombuffer(signs, dtype=np.int8), complete), weight, source, ref)
