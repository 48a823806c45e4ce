"""Asks a server by the public clients of Triton and KServe; runs in the environment that has them.

``python public_clients.py triton|kserve URL`` asks the model `dense` about two rows and the model `texts` about two
strings, with binary data and without, and prints the scores and the labels as lists of JSON, one line a call.
"""

# ruff: noqa: T201  (what is printed is what the test reads)

import asyncio
import json
import sys
from typing import Any

import numpy as np

X = np.array([[0.5, -1.0, 2.0], [1.0, 0.25, 0.0]], dtype=np.float32)
STRINGS = np.array(["a fox", '{"title": "fox"}'], dtype=object)
CALLS: tuple[tuple[str, Any, str], ...] = (("dense", X, "FP32"), ("texts", STRINGS, "BYTES"))


def told(scores: Any, labels: Any) -> None:
    texts = [each.decode() if isinstance(each, bytes) else str(each) for each in labels.tolist()]
    print(json.dumps({"scores": scores.tolist(), "labels": [json.loads(text) for text in texts]}))


def triton(url: str) -> None:
    from tritonclient import http

    client = http.InferenceServerClient(url.removeprefix("http://"))
    assert client.is_server_live()
    assert client.is_server_ready()
    assert not client.is_model_ready("nobody")
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    for name, data, datatype in CALLS:
        assert client.is_model_ready(name)
        assert client.get_model_metadata(name)["inputs"][0]["datatype"] == datatype
        for binary in (True, False):
            asked = http.InferInput("x", data.shape, datatype)
            asked.set_data_from_numpy(data, binary_data=binary)
            wanted = [http.InferRequestedOutput(output, binary_data=binary) for output in ("scores", "labels")]
            for outputs in (wanted, None):
                answer = client.infer(name, [asked], outputs=outputs, request_id="7")
                assert answer.get_response()["id"] == "7"
                told(answer.as_numpy("scores"), answer.as_numpy("labels"))


async def kserve(url: str) -> None:
    from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig

    client = InferenceRESTClient(RESTConfig(protocol="v2", timeout=120))
    assert await client.is_server_live(url)
    assert await client.is_server_ready(url)
    assert not await client.is_model_ready(url, "nobody")
    for name, data, datatype in CALLS:
        assert await client.is_model_ready(url, name)
        for binary in (True, False):
            asked = InferInput("x", list(data.shape), datatype)
            asked.set_data_from_numpy(data, binary_data=binary)
            answer = await client.infer(url, InferRequest(name, [asked], request_id="8"), model_name=name)
            assert answer.id == "8"
            outputs = {output.name: output.as_numpy() for output in answer.outputs}
            told(outputs["scores"], outputs["labels"])


if __name__ == "__main__":
    if sys.argv[1] == "triton":
        triton(sys.argv[2])
    else:
        asyncio.run(kserve(sys.argv[2]))
