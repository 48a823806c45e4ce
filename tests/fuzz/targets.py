"""Targets of the fuzzer: each reads bytes, and may reject them by its own errors only."""

import asyncio
import contextlib
import io
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError
from tests.fuzz.sealed import EXAMPLES, dataset, model, predictor

from manylabel_core.datasets import BadDataset, read_dataset
from manylabel_core.datasets.limits import ReaderLimits
from manylabel_core.records.bounds import RecordLimits
from manylabel_core.records.encoder import RecordEncoder
from manylabel_core.records.text import TextSettings
from manylabel_core.state import DamagedState, State
from manylabel_service.api.translation.from_json import record_features, to_example
from manylabel_service.api.translation.line_reader import Splitter
from manylabel_service.api.translation.uploads import Multipart
from manylabel_service.api.web.bodies import json_value
from manylabel_service.api.web.problems import Problem
from manylabel_service.api.web.validation import Path as Place
from manylabel_service.archive.layout import ArchivedDocument, ArchivedModel, StoreCatalogue
from manylabel_service.errors import ReleaseTooOld, UnreadableEntry
from manylabel_service.hosting.signature import Signature
from manylabel_service.integrations.label_studio.config import ConfigRefused, read_config
from manylabel_service.integrations.open_inference.schemas import InferRequest
from manylabel_service.integrations.open_inference.tensors import split
from manylabel_service.integrations.open_inference.translation import to_examples
from manylabel_service.online.state.controls import Rollback
from manylabel_service.online.state.log_entries import Update, decode, encode
from manylabel_service.storage.places.place import ObjectDamaged

LIMITS = ReaderLimits(rows=1_000, features=1_000, labels=100, nonzeros=10_000, bytes=2**20)


class Target(NamedTuple):
    """A parser, the errors that it may raise, and its first inputs."""

    parse: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    seeds: Sequence[bytes]

    def __call__(self, data: bytes) -> None:
        """Parse; whatever is raised beyond the refusals is a finding."""
        with contextlib.suppress(self.refusals):
            self.parse(data)


def _dataset(format: str, **options: Any) -> Callable[[bytes], object]:
    def parse(data: bytes) -> object:
        dataset = read_dataset(io.BytesIO(data), format, limits=LIMITS, **options)
        return dataset.to_bytes()

    return parse


ARFF = b"""@relation 'r: -C -2'
@attribute a numeric
@attribute 'b c' {red, green, 'light blue'}
@attribute y1 {0,1}
@attribute y2 {0,1}
@data
1.5,red,1,0
?,'light blue',0,1
{0 2,1 green,3 1}
"""
MULAN = b"""<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels"><label name="y1"><label name="y2"/></label></labels>"""
NDJSON = b"""{"x": {"a": 1, "text": "red apples", "tags": ["x", "y"], "deep": {"n": null, "b": true}}, "y": ["l"]}
{"x": {"indices": [1, 5], "values": [0.5, -1]}, "y": {"l": true, "m": false}, "weight": 2}
{"x": [1, 2.5, null], "y": []}
{"x": "plain text", "y": ["m"]}
"""


def _mulan(data: bytes) -> object:
    return read_dataset(io.BytesIO(ARFF), "arff", labels=io.BytesIO(data), limits=LIMITS)


def _npz() -> Sequence[bytes]:
    dense, sparse = io.BytesIO(), io.BytesIO()
    np.savez(dense, X=np.eye(3, 4, dtype=np.float32), Y=np.eye(3, 2, dtype=np.int8), label_names=np.array(["p", "q"]))
    arrays = {"X_data": [1.0, 2.0], "X_indices": [0, 3], "X_indptr": [0, 1, 2], "X_shape": [2, 4]}
    np.savez_compressed(
        sparse, **arrays, Y_indices=[0], Y_indptr=[0, 0, 1], Y_shape=[2, 2], train_idx=[0], test_idx=[1]
    )
    return [dense.getvalue(), sparse.getvalue()]


_ENCODER = RecordEncoder(TextSettings(fields=["title"], ngrams=2, chars=(2, 4)), RecordLimits(2_000, 500, 4))


def _lines(data: bytes) -> object:
    """Cut the bytes into lines in two ways, and read each as a line of a stream."""
    splitter, other = Splitter(2**12), Splitter(2**12)
    lines = [*splitter.feed(data), *([] if splitter.too_long else splitter.end())]
    pieces: list[bytes] = []
    for begin in range(0, len(data), 7):
        pieces += other.feed(data[begin : begin + 7])
        if other.too_long:
            break
    if not (splitter.too_long or other.too_long):
        assert [*pieces, *other.end()] == lines
    read = 0
    for line in lines:
        try:
            to_example(json_value(line, "the line"), (), 10_000, _ENCODER)
        except Problem:
            continue
        read += 1
    return read


def _inference(data: bytes) -> object:
    """Read a request of the Open Inference Protocol: JSON to the first line end, then binary data."""
    raw, _, binary = data.partition(b"\n")
    asked = InferRequest.model_validate(json_value(raw, "the body"))
    tensors = split(asked.inputs, memoryview(binary))

    def convert(item: Any, at: Place) -> Any:
        return record_features(item["x"], at, 10_000, _ENCODER)

    signature = Signature("m3l", {}, (), False, _ENCODER, views={tensor.asked.name for tensor in tensors})
    return asyncio.run(to_examples(tensors, signature, convert, 1_000, 1_000)).values


INFERENCE = [
    b'{"inputs": [{"name": "x", "shape": [2, 2], "datatype": "FP32", "data": [[1, 2], [3, 4]]}], "id": "7"}\n',
    b'{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "INT16", "parameters": {"binary_data_size": 4}}]}\nabcd',
    b'{"inputs": [{"name": "x", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": 6}}]}\n'
    b"\x02\x00\x00\x00{}",
]


def _multipart(data: bytes) -> object:
    parts = Multipart(b"xyz", ("data", "meta"))
    return [parts.feed(data[begin : begin + 11]) for begin in range(0, len(data), 11)]


MULTIPART = (
    b'--xyz\r\nContent-Disposition: form-data; name="meta"\r\n\r\n{"name": "d"}\r\n'
    b'--xyz\r\nContent-Disposition: form-data; name="data"; filename="f"\r\nContent-Type: text/csv\r\n\r\n'
    b"a,b\n1,2\r\n--xyz--\r\n"
)
LABEL_CONFIG = b"""<View><Text name="t" value="$text"/><Header value="What?"/>
<Choices name="c" toName="t" choice="multiple"><Choice value="red" alias="r"/><Choice value="green"/></Choices>
<Choices name="d" toName="t"><Choice value="Yes"/><Choice value="No"/></Choices></View>"""


def _entries() -> Sequence[bytes]:
    return [encode(Update(EXAMPLES)), encode(Rollback("7"))]


def _archive(data: bytes) -> object:
    return StoreCatalogue.from_bytes("catalogue", data)


def _archives() -> Sequence[bytes]:
    key = ArchivedDocument.model_construct(kind="key", name="a", revision=1, value=b"{}")
    model = ArchivedModel.model_construct(name="m", incarnation=1, spec=b"{}", timeline=1, begin="0", through="7")
    catalogue = StoreCatalogue.model_construct(
        format=1, store="0" * 32, unix_ms=0, closed=True, documents=(key,), models=(model,), blobs=()
    )
    return [catalogue.to_bytes()]


CHANGES = [bytes(range(8)), b"\x01\x00" * 6, b"\x02\x00\x00\x00" * 4]
"""Seeds of the targets that read their input as changes of a state."""
CSV = b'title,colour,price,tags\nRed apples,red,1.5,"a;b"\n"a ""quoted""\nline",,?,\n'
TABLES = [
    b"\xef\xbb\xbfsep=;\r\na;b;c;l\r\n1,5;TRUE;[1, 2];rock|loud\r\nNA;FALSE;[];\r\n",
    b'"","a","l"\n"1",NA,"B|A"\n"2","1,234.50","A"\n',
    b"a b l\nr1 1 2 <x><y>\nr2 3 4 <x>\n",
    'a\tl\n€ 5\t["x", "y z"]\n€ 1.000,5\t[\'it\\\'s\']\n'.encode("utf-16"),
    b"a,t,l\r1,one,p\r007,two,q\r",
    b"d,e,n,l\n2024-11-29T10:00+01:00,29.11.2024,(1,p\n2024-02-30,1/2/2024,1'000,q\n",
]
ENCODED = "näme;größe;l\nKöln;1,5;a|b\n"
_TABLE: dict[str, Any] = {"tags": "tags", "separator": ";", "text": TextSettings(fields=["title"])}

TARGETS: dict[str, Target] = {
    "libsvm": Target(_dataset("libsvm"), (BadDataset,), [b"3 5 2\n0,1 0:1.5 4:-2\n1 2:3 # c\n 1:1\n", b"a 1:2\n"]),
    "arff": Target(_dataset("arff"), (BadDataset,), [ARFF]),
    "mulan": Target(_mulan, (BadDataset,), [MULAN]),
    "npz": Target(_dataset("npz"), (BadDataset,), _npz()),
    "ndjson": Target(_dataset("ndjson"), (BadDataset,), NDJSON.splitlines(keepends=True)[::3]),
    "csv": Target(_dataset("csv", **_TABLE), (BadDataset,), [CSV]),
    "table": Target(_dataset("csv", tags="l"), (BadDataset,), TABLES),
    "gb18030": Target(_dataset("csv", tags="l", encoding="gb18030"), (BadDataset,), [ENCODED.encode("gb18030")]),
    "utf16": Target(_dataset("csv", tags="l", encoding="utf-16"), (BadDataset,), [ENCODED.encode("utf-16-le")]),
    "tsv": Target(_dataset("tsv", label_columns=1), (BadDataset,), [b"a\tb\ty\n1\tx\t0\n2\t\t1\n"]),
    "lines": Target(_lines, (), [NDJSON]),
    "inference": Target(_inference, (Problem, ValidationError), INFERENCE),
    "multipart": Target(_multipart, (Problem,), [MULTIPART]),
    "label_config": Target(lambda data: read_config(data.decode("utf-8", "replace")), (ConfigRefused,), [LABEL_CONFIG]),
    "log_entry": Target(decode, (ReleaseTooOld, UnreadableEntry), _entries()),
    "state": Target(State.from_bytes, (DamagedState,), [State({"a": np.eye(2)}, {"position": "7"}).to_bytes()]),
    "model": Target(model, (DamagedState, MemoryError), CHANGES),
    "version": Target(predictor, (DamagedState, ReleaseTooOld), CHANGES),
    "dataset": Target(dataset, (DamagedState, MemoryError), CHANGES),
    "archive": Target(_archive, (ObjectDamaged,), _archives()),
}
"""By name."""
