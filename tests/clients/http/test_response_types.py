"""Response types of the client: they have the fields of the schemas that the server publishes."""

from dataclasses import fields

from docs._site.description import description
from tests.support.cases import for_each

import manylabel_clients

SCHEMAS = {
    **{
        name: name
        for name in (
            *("Alarms", "Drift", "Explanation", "FeaturePart", "KnownVersions", "LogLine"),
            *("MeasureColumns", "Measures", "MetricsHistory", "ModelDetail", "PastAlarms", "RateLimits", "Reliability"),
            *("ReliabilityBin", "Replicas", "Snapshot", "UnlabelledPrediction", "Version", "WebhookDelivery"),
            *("WindowColumns", "WindowMeasures"),
        )
    },
    "ApiKey": "KeyStatus",
    "JobError": "JobFailure",
    "JobProgress": "Progress",
    "JobResult": "Result",
    "JobStatus": "Job",
    "LabelPage": "LabelList",
    "LabelStatus": "ListedLabel",
    "NewApiKey": "NewKey",
    "Prediction": "PredictResponse",
    "Replica": "ReplicaDescription",
    "Trainer": "TrainerDescription",
    "UnlabelledPage": "UnlabelledList",
    "Webhook": "WebhookDetail",
}
"""Schemas by response type. A type whose fields differ from its schema is not listed."""


@for_each(("name", "schema"), SCHEMAS.items(), ids=SCHEMAS)
def test_a_response_type_has_the_fields_of_its_schema(name: str, schema: str) -> None:
    published = description()["components"]["schemas"][schema]["properties"]
    found = {field.name.removesuffix("_") for field in fields(getattr(manylabel_clients, name))}
    assert found == published.keys()
