"""Keys whose labelling configuration of a Label Studio project is used."""

from collections.abc import Callable
from typing import Any

from tests.service.access.keyed import Keyed

CONFIG = (
    '<View><Text name="text" value="$text"/><Choices name="topic" toName="text" choice="multiple">'
    '<Choice value="a"/></Choices></View>'
)


def test_only_the_configuration_of_a_key_that_may_learn_is_used(serve: Callable[..., Any]) -> None:
    with serve(job_slots=0) as client:
        keyed = Keyed(client)
        assert keyed.call("post", "/v1/models", json={"name": "tags", "algorithm": "falt"}).status_code == 201

        def ask(what: str, key: str, **body: Any) -> Any:
            return keyed.call("post", f"/v1/label-studio/tags/{what}", key, json=body)

        annotation = {"id": 1, "project": 7, "updated_at": "2026-11-23T05:09:56Z", "result": []}
        message = {"action": "ANNOTATION_CREATED", "annotation": annotation, "task": {"data": {"text": "a"}}}
        message["project"] = {"id": 7}
        learner = keyed.make(scopes=["predict", "learn"])["key"]
        for other in (keyed.make(scopes=["predict"]), keyed.make(scopes=["predict"], models=["tags"])):
            assert ask("setup", other["key"], schema=CONFIG).json()["model_version"]
        assert ask("webhook", learner, **message).status_code == 422
        assert ask("setup", learner, schema=CONFIG).status_code == 200
        assert ask("webhook", learner, **message).status_code == 200
