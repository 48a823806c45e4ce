"""Response types of the Python client from the OpenAPI description: `python -m docs._site.response_types FILE`."""

import json
import re
import sys
from keyword import iskeyword
from pathlib import Path

from docs._site.description import Schema, description

from manylabel_core.batch.catalogue import TRAINERS
from manylabel_core.datasets.reading import EXTENSIONS, FORMATS
from manylabel_core.metrics.measures import MEASURES

HEAD = '''\
"""Response types of the HTTP API, and its enumerations. Made by `make response-types`: do not edit."""
# fmt: off
# ruff: noqa: E501

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

'''

TYPES = """
    Alarms Drift(Alarms) BaselineMeasures Measures(BaselineMeasures) WindowMeasures(Measures) GroupMeasures BySeen
    Metrics=Metrics+BothMeasures BaselineColumns MeasureColumns(BaselineColumns) WindowColumns(MeasureColumns)
    PastAlarms MetricsHistory ReliabilityBin Reliability
    ModelSummary=StoredModel FieldOfModel ModelStatus(ModelSummary) TrainedSummary=StoredTrained FieldOfTrained
    TrainedStatus(TrainedSummary) FeaturePart Explanation Learning Prediction=PredictResponse UnlabelledPrediction
    UnlabelledPage=UnlabelledList Updated=UpdateResponse RolledBack(Updated) LabelMeasures=MeasuresOfLabel
    Calibration=Curve LabelStatus=ListedLabel LabelPage=LabelList Snapshot ForgetReceipt Verification Version
    Promoted=Promoted+PromotedFollower ModelDetail JobProgress=Progress JobError=JobFailure JobResult=Result
    _JobStatus=Job LogLine Trainer=TrainerDescription DatasetInfo=Dataset RateLimits ApiKey=KeyStatus
    NewApiKey(ApiKey)=NewKey WebhookDelivery Webhook=WebhookDetail+WebhookStatus NewWebhook(Webhook)
    Replica=ReplicaDescription Replicas DoubtedPlace FeatureForDoubt Doubt(DoubtedPlace)=ListedDoubt DoubtCounts=LeftOut
    DoubtList SuggestionEvidence SuggestedRequest Suggestion LabelHealth Undone(Updated)
"""
"""Name(base)=schemas of each type; without schemas, its own name. A type has the fields of all its schemas."""

ENUMERATIONS = {"SCOPES": "KeyStatus.scopes", "EVENTS": "WebhookDetail.events", "ALGORITHMS": "ModelRequest.algorithm"}
"""Schema and field whose values a constant lists."""

TABLES = {
    "TRAINERS": list(TRAINERS),
    "FORMATS": list(FORMATS),
    "EXTENSIONS": dict(EXTENSIONS),
    "TITLES": {name: measure.title for name, measure in MEASURES.items()},
}
"""Tables of core that the client needs without it."""

LEFT_OUT = {
    *("Metrics.position", "Metrics.updates"),  # the metrics in a status have none
    *("ModelSummary.loaded", "ModelStatus.loaded", "TrainedSummary.loaded", "TrainedStatus.loaded"),
    *(f"DatasetInfo.{name}" for name in ("label_names", "label_counts", "label_details")),
    *(f"DatasetInfo.{name}" for name in ("unlabelled", "missing", "report")),
}
"""Fields that a type lacks."""

SECRETS = {"key", "url", "secret"}
"""Fields that a repr omits."""

CHANGED = {
    "FeaturePart.feature": "Hashable",
    "FeatureForDoubt.feature": "Hashable",
    "Metrics.by_source": "Mapping[str, dict[str, float | None]] = field(default_factory=dict)",
    "Explanation.title": "float = 0.0",
    "ModelStatus.fields": "list[FieldOfModel] = field(default_factory=list)",
    "ModelStatus.n_fields": "int = 0",
    "TrainedStatus.fields": "list[FieldOfTrained] = field(default_factory=list)",
    "DatasetInfo.weighted": "bool = False",
    "Webhook.deliveries": "list[WebhookDelivery] = field(default_factory=list)",
}
"""Types of fields that are omitted from some responses, but never None, or that estimators for river make too."""

ADDED = {
    "Updated": "replayed: bool = False  #: True if the server learnt the examples in an earlier attempt.",
    "DatasetInfo": "details: dict[str, Any] | None = None  #: Label names, the number of rows of each, and the report.",
}
"""Fields that the client itself makes."""


def module() -> str:
    """Return the module."""
    schemas = description()["components"]["schemas"]
    types = [re.fullmatch(r"(\w+)(?:\((\w+)\))?(?:=(.+))?", each) for each in TYPES.split()]
    found = [(each[1], each[2], (each[3] or each[1]).split("+")) for each in types if each]
    names = {schema: name for name, _, of in found for schema in of}
    known: dict[str, list[str]] = {}
    parts = [HEAD]
    public = sorted(name for name, *_ in found if not name.startswith("_"))
    parts.append(f"__all__ = {json.dumps(public)}\n\n")
    for constant, place in ENUMERATIONS.items():
        schema, _, field = place.partition(".")
        listed = schemas[schema]["properties"][field]
        parts.append(f"{constant} = {json.dumps(listed.get('items', listed)['enum'])}\n")
    parts += [f"{constant} = {json.dumps(table)}\n" for constant, table in TABLES.items()]
    for name, base, of in found:
        lines = [*_fields(name, [schemas[one] for one in of], names), *filter(None, [ADDED.get(name)])]
        known[name] = known.get(base or "", []) + lines
        own = [line for line in lines if line not in known.get(base or "", [])]
        about = re.split(r"(?<=\.) ", _text(schemas[of[0]]))[0]
        parts.append("\n@dataclass(frozen=True, slots=True, kw_only=True)\n")
        parts.append(f'class {name}{f"({base})" if base else ""}:\n    """{about}"""\n')
        parts.append("".join(f"    {line}\n" for line in own))
    return "".join(parts)


def _fields(name: str, schemas: list[Schema], names: dict[str, str]) -> list[str]:
    """Return the lines of the fields of a type."""
    fields = {field: about for schema in reversed(schemas) for field, about in schema["properties"].items()}
    lines = []
    for field, about in fields.items():
        if f"{name}.{field}" in LEFT_OUT:
            continue
        is_required = all(field in schema.get("required", ()) for schema in schemas)
        kind = _type(about, names) + ("" if is_required or "null" in str(about) else " | None")
        default = " = None" if "None" in kind.split(" | ") or kind == "Any" else ""
        if field in SECRETS:
            default = " = field(repr=False)"
        kind = CHANGED.get(f"{name}.{field}", kind + default)
        text = _text(about)
        lines.append(f"{field}{'_' * iskeyword(field)}: {kind}" + (f"  #: {text}" if text else ""))
    return lines


def _text(about: Schema) -> str:
    """Return the description of a schema in one line, with Python's words."""
    text = " ".join(about.get("description", "").split())
    return re.sub(r"\b[Nn]ull\b", "None", text).replace("`", "``")


def _type(about: Schema, names: dict[str, str]) -> str:
    """Return the Python type of a schema."""
    if "anyOf" in about:
        kinds = list(dict.fromkeys(_type(one, names) for one in about["anyOf"]))
        return " | ".join(kind for kind in kinds if kind != "int" or "float" not in kinds)
    if "$ref" in about:
        return names.get(about["$ref"].rpartition("/")[2], "dict[str, Any]")
    if "enum" in about:
        return f"Literal{json.dumps(about['enum'])}"
    if about.get("type") == "array":
        kind = _type(about["items"], names)
        return f"list[{'str' if kind.startswith('Literal') else kind}]"
    if about.get("type") == "object":
        values = about.get("additionalProperties")
        return f"dict[str, {_type(values, names) if isinstance(values, dict) else 'Any'}]"
    simple = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
    return simple.get(about.get("type", ""), "Any")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(module())
