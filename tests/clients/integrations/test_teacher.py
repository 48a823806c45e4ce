"""A model in front of a teacher: functions, coroutines, local programs, and the endpoint of a language model."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.cases import for_each
from tests.support.http_server import http_server

from manylabel_clients import AsyncClient, Client, Model, TeacherBusy, TeacherFailed, TeacherRefuses, with_teacher
from manylabel_clients.command.output.measures import print_parity
from manylabel_clients.http.transport.credentials import Secret
from manylabel_clients.http.transport.retry import Retry
from manylabel_clients.integrations.teacher import self_agreement
from manylabel_clients.integrations.teacher.endpoint import MAX_RESPONSE_BYTES, Label, LanguageModel, TeacherUnusable
from manylabel_clients.integrations.teacher.program import Program

NAMES = "pqr"
PARITY = {"parity": 0.8, "audit_rate": 0.2}
ONCE = Retry(attempts=1)


def examples(n: int, seed: int = 0) -> list[dict[str, float]]:
    told = np.random.default_rng(seed).random((n, len(NAMES))) < 0.3
    return [{f"x{name}": float(on) for name, on in zip(NAMES, row, strict=True)} for row in told]


def rule(x: dict[str, float]) -> list[str]:
    return [name for name in NAMES if x[f"x{name}"]]


@pytest.fixture
def model(client: Client, name: str) -> Model:
    return client.create_model(name, promise=PARITY, sources={"machine": 1.0})


def updates_of(model: Model) -> int:
    return model.metrics_history().updates


def test_with_keep_asked_the_answers_of_the_model_are_not_stored(model: Model) -> None:
    answers = list(with_teacher(model, rule, keep="asked").many(examples(250), batch_size=10))
    alone = [answer.prediction for answer in answers if not answer.asked]
    assert len(alone) > 20
    assert [one.id is not None for one in alone] == [one.check is True for one in alone]
    assert updates_of(model) == 250 - len(alone)


def test_the_account_shows_what_people_found(model: Model, capsys: pytest.CaptureFixture[str]) -> None:
    answers = list(with_teacher(model, rule).many(examples(250), batch_size=10))
    print_parity(account_of(model))
    assert "found by people" not in capsys.readouterr().out
    for answer in answers:
        if not answer.asked:
            assert answer.prediction.id is not None
            model.label(answer.prediction.id, ["other"] if answer.prediction.check else answer.prediction.labels)
    people = account_of(model)["people"]
    drawn = sum(answer.prediction.check is True for answer in answers)
    assert (people["model_wrong"], people["checked"]) == (drawn, drawn)
    print_parity(account_of(model))
    out = capsys.readouterr().out
    assert f"model wrong {drawn} of {sum(not answer.asked for answer in answers)}, teacher wrong 0 of 0" in out
    assert ("drawn checks" in out) == (drawn > 0)


def account_of(model: Model) -> Any:
    promise = model.metrics().promise
    assert promise is not None
    return promise["parity"]


def test_a_model_answers_alone_what_it_is_sure_of(model: Model) -> None:
    calls = []

    def call(x: dict[str, float]) -> list[str]:
        calls.append(x)
        return rule(x)

    label = with_teacher(model, call)
    xs = examples(250)
    labels = [label(x) for x in xs[:50]]
    n_before = len(calls)
    answers = list(label.many(iter(xs[50:]), workers=3, batch_size=10))
    assert labels[:5] == [rule(x) for x in xs[:5]]
    assert sum(answer.asked for answer in answers) == len(calls) - n_before
    assert len(calls) < 200
    assert all(answer.labels == rule(x) for answer, x in zip(answers, xs[50:], strict=True) if answer.asked)
    assert updates_of(model) == len(calls)
    assert account_of(model)["state"] == "open"


def test_coroutines(server: Any, name: str) -> None:
    async def run() -> tuple[int, int, float]:
        async with AsyncClient(server.url) as client:
            model = await client.create_model(name, promise=PARITY, sources={"machine": 1.0})
            running = most = n = 0

            async def call(x: dict[str, float]) -> set[str]:
                nonlocal running, most, n
                running, n = running + 1, n + 1
                most = max(most, running)
                await asyncio.sleep(0)
                running -= 1
                if n % 7 == 0:
                    raise TeacherRefuses("content filter")
                return set(rule(x))

            label = with_teacher(model, call)
            (x,) = examples(1)
            assert await label(x) == rule(x)
            answers = [answer async for answer in label.many(examples(60, 1), workers=2, batch_size=20)]
            failed = sum(answer.error is not None for answer in answers)
            assert failed == sum(answer.labels is None for answer in answers) == n // 7
            updates = (await model.metrics_history()).updates
            assert updates == n - failed
            return most, failed, updates

    most, failed, _ = asyncio.run(run())
    assert most == 2
    assert failed > 2


def test_a_teacher_that_fails_is_called_again_and_nothing_is_learnt_from_failures(model: Model) -> None:
    waits = []
    told: list[Any] = [
        TeacherBusy(retry_after_seconds=7.0), TimeoutError("slow"), "pq", None, [1], [""], ["other"], ["p", "p", "q"]
    ]  # fmt: skip

    def call(_: Any) -> Any:
        found = told.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    retry = Retry(attempts=9, base_seconds=1.0, jitter=0.0)
    label = with_teacher(model, call, labels=[*NAMES], retry=retry, sleep=waits.append)
    assert label(examples(1)[0]) == ["p", "q"]
    assert waits == [8.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0]
    assert updates_of(model) == 1


@for_each(
    ("error", "n_calls", "told"),
    [
        (ConnectionError("reset"), 3, "failed 3 times: reset"),
        (TeacherRefuses("content filter"), 1, "refuses to answer: content filter"),
        (TeacherBusy(retry_after_seconds=1e6), 1, "failed 1 times: the teacher is busy"),
    ],
)
def test_a_teacher_that_never_answers(model: Model, error: Exception, n_calls: int, told: str) -> None:
    calls, n_learnt = [], updates_of(model)

    def call(x: Any) -> list[str]:
        calls.append(x)
        raise error

    label = with_teacher(model, call, retry=Retry(attempts=3), sleep=lambda _: None)
    with pytest.raises(TeacherFailed, match=told):
        label(examples(1)[0])
    assert len(calls) == n_calls
    (answer,) = label.many(examples(1))
    assert (answer.labels, answer.asked) == (None, True)
    assert told in str(answer.error)
    assert updates_of(model) == n_learnt


def test_a_model_without_parity_is_refused(client: Client, name: str) -> None:
    with pytest.raises(ValueError, match="promises no parity"):
        with_teacher(client.create_model(name), rule)(examples(1)[0])


def test_labels_that_another_attempt_submitted_are_not_an_error(model: Model) -> None:
    def call(x: dict[str, float]) -> list[str]:
        (waiting,) = model.predictions().predictions
        model.label(waiting.id, rule(x), source="machine")  # as after a lost response
        return rule(x)

    (x,) = examples(1)
    assert with_teacher(model, call)(x) == rule(x)
    assert updates_of(model) == 1


def test_a_teacher_is_asked_twice_to_see_what_can_be_promised() -> None:
    answers = iter([["a"], ["a"], ["a", "b"], ["a"], [], []])

    def call(x: int) -> list[str]:
        if x == 3:
            raise TeacherRefuses
        return next(answers)

    found = self_agreement(call, range(4), workers=1, retry=ONCE)
    assert (found.examples, found.failed, found.exact) == (3, 1, 2 / 3)
    assert found.f1 == pytest.approx((1 + 2 / 3 + 1) / 3)
    assert found.ceiling == pytest.approx(((2 / 3) ** 0.5, (8 / 9) ** 0.5))


# -- programs ------------------------------------------------------------------------------------

PROGRAM = """
import json, sys, time
x = json.loads(sys.stdin.readline())
mode = sys.argv[1] if len(sys.argv) > 1 else ""
if mode == "slow":
    time.sleep(60)
if mode == "fails":
    sys.exit("no such model")
if mode == "nonsense":
    print("Sure! The labels are: p")
elif mode == "nothing":
    pass
elif mode == "twice":
    print(json.dumps(["p"]) * 2)
else:
    print(json.dumps({"labels": [name for name in "pqr" if x[f"x{name}"]]}))
"""


@pytest.fixture
def program(tmp_path: Path, programs: None) -> str:
    path = tmp_path / "teacher program.py"
    path.write_text(PROGRAM)
    return f"{sys.executable} '{path}'"


def test_a_program_is_a_teacher(program: str) -> None:
    x = examples(1)[0]
    assert Program(program)(x) == rule(x)


@for_each(
    ("mode", "told"),
    [
        ("nonsense", "not JSON"),
        ("nothing", "not JSON"),
        ("twice", "not JSON"),
        ("fails", "ended with status 1: no such model"),
    ],
)
def test_a_program_that_answers_something_else(program: str, mode: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Program(f"{program} {mode}")(examples(1)[0])


def test_a_slow_program_is_ended(program: str) -> None:
    with pytest.raises(TimeoutError):
        Program(f"{program} slow", timeout_seconds=0.2)({})


def test_a_program_that_does_not_exist_ends_the_loop(model: Model, programs: None) -> None:
    with pytest.raises(TeacherUnusable, match="cannot start"):
        list(with_teacher(model, Program("/no/such/program")).many(examples(3)))


# -- endpoints -----------------------------------------------------------------------------------


class StandIn:
    """Endpoint of a language model; `respond` returns the status, the headers and the body of the next response."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        self.respond: Callable[[dict[str, Any]], tuple[int, dict[str, str], bytes]] = lambda _: completion("{}")
        self.url = ""


def completion(content: Any, reason: str = "stop", **message: Any) -> tuple[int, dict[str, str], bytes]:
    choice = {"message": {"role": "assistant", "content": content, **message}, "finish_reason": reason}
    return 200, {}, json.dumps({"choices": [choice]}).encode()


@pytest.fixture
def endpoint() -> Iterator[StandIn]:
    stand_in = StandIn()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            stand_in.requests.append({"path": self.path, **body})
            stand_in.headers.append(self.headers)
            status, headers, content = stand_in.respond(body)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

    with http_server(Handler) as stand_in.url:
        yield stand_in


LABELS = {
    "p": Label("Pets", "Animals at home"),
    "q": Label("Same"),
    "r": Label("Same"),
    "s": Label(),
}


def test_a_language_model_gets_titles_and_returns_names(endpoint: StandIn) -> None:
    endpoint.respond = lambda _: completion('{"labels": ["Pets", "r", "Pets"]}')
    with LanguageModel(f"{endpoint.url}/v1/", "llama", LABELS, Secret("key")) as call:
        assert call({"text": "ä cat"}) == ["p", "r"]
    (request,) = endpoint.requests
    assert (request["path"], request["model"]) == ("/v1/chat/completions", "llama")
    assert endpoint.headers[0]["authorization"] == "Bearer key"
    system, user = request["messages"]
    assert "- Pets: Animals at home\n- q\n- r\n- s" in system["content"]
    assert user["content"] == '{"text": "ä cat"}'
    item = request["response_format"]["json_schema"]["schema"]["properties"]["labels"]["items"]
    assert item == {"type": "string", "enum": ["Pets", "q", "r", "s"]}
    with LanguageModel(f"{endpoint.url}/v1/chat/completions", "llama", LABELS, unknown=True) as call:
        call("a text")
    assert (endpoint.requests[1]["path"], endpoint.requests[1]["messages"][1]["content"]) == (
        "/v1/chat/completions",
        "a text",
    )
    schema = endpoint.requests[1]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["labels"]["items"] == {"type": "string"}


@for_each(
    ("response", "kind", "told"),
    [
        ((429, {"Retry-After": "3"}, b"slow down"), TeacherBusy, "429"),
        ((503, {}, b""), TeacherBusy, "503"),
        ((400, {}, b'{"error": {"code": "content_filter"}}'), TeacherRefuses, "content filter"),
        ((413, {}, b"too long"), TeacherRefuses, "too long"),
        ((401, {}, b"wrong key"), TeacherUnusable, "401"),
        ((404, {}, b"no such model"), TeacherUnusable, "404"),
        (completion(None, "content_filter"), TeacherRefuses, "content filter"),
        (completion(None, refusal="I cannot help with that"), TeacherRefuses, "I cannot help"),
        (completion("I think it is a pet."), ValueError, "not JSON"),
        (completion('{"labels": ["Pe', "length"), ValueError, "not JSON"),
        (completion('{"labels": "Pets"}'), ValueError, "not a list"),
        (completion("[" * 100_000), ValueError, "not JSON"),
        (completion(None), ValueError, "no content"),
        ((200, {}, b"<html>"), ValueError, "not a chat completion"),
        ((200, {}, b'{"choices": []}'), ValueError, "not a chat completion"),
        ((200, {}, b" " * (MAX_RESPONSE_BYTES + 1)), ValueError, "has more than"),
    ],
)
def test_a_language_model_that_answers_something_else(endpoint: StandIn, response: Any, kind: Any, told: str) -> None:
    endpoint.respond = lambda _: response
    with LanguageModel(endpoint.url, "llama", LABELS) as call, pytest.raises(kind, match=told) as caught:
        call("x")
    if response[0] == 429:
        assert caught.value.retry_after_seconds == 3.0


def test_a_fenced_list_is_read(endpoint: StandIn) -> None:
    endpoint.respond = lambda _: completion('```json\n["Pets"]\n```')
    with LanguageModel(endpoint.url, "llama", LABELS) as call:
        assert call("x") == ["p"]


def test_an_endpoint_that_is_not_there_is_busy() -> None:
    with http_server(BaseHTTPRequestHandler) as url:
        pass
    with LanguageModel(url, "llama", LABELS) as call, pytest.raises(TeacherBusy, match="no response"):
        call("x")


# -- the command -------------------------------------------------------------------------------

Command = Callable[..., Any]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "new.jsonl"
    path.write_text("".join(json.dumps({"x": x}) + "\n" for x in examples(40)))
    return str(path)


def test_teach_by_a_program(manylabel: Command, client: Client, name: str, file: str, program: str) -> None:
    client.create_model(name, labels=[*NAMES], promise=PARITY, sources={"machine": 1.0})
    done = manylabel("teach", name, file, "--teacher", program).checked()
    lines = done.out.splitlines()
    assert lines[0] == f"teacher  {', '.join(rule(examples(1)[0]))}"
    assert "in the long run, answers agree with machine at 80 % (equal)" in done.out
    assert updates_of(client.model(name)) == 40
    done = manylabel("teach", name, file, "--teacher", program, "--json").checked()
    answers = [json.loads(line) for line in done.out.splitlines()]
    assert len(answers) == 40
    assert answers[0].keys() == {"labels", "by", "why", "id", "error"}


def test_teach_by_an_endpoint(
    manylabel: Command, client: Client, name: str, file: str, endpoint: StandIn, tmp_path: Path
) -> None:
    model = client.create_model(name, promise=PARITY, sources={"machine": 1.0})
    refused = manylabel("teach", name, file, "--teacher", endpoint.url, "--teacher-model", "llama")
    assert (refused.status, "knows no labels" in refused.err) == (1, True)
    model.describe_labels({"p": "Pets", "q": "Queens", "r": "Rocks"})

    def respond(body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        x = json.loads(body["messages"][1]["content"])
        titles = {"p": "Pets", "q": "Queens", "r": "Rocks"}
        return completion(json.dumps({"labels": [titles[label] for label in rule(x)]}))

    endpoint.respond = respond
    key = tmp_path / "key"
    key.write_text("secret\n")
    options = ("--teacher", endpoint.url, "--teacher-model", "llama", "--teacher-key-file", str(key))
    manylabel("teach", name, file, *options).checked()
    assert endpoint.headers[0]["authorization"] == "Bearer secret"
    assert {one.label for one in model.labels().labels} == {*NAMES}
    shown = manylabel("teach", name, file, *options, "--self-agreement", "10")
    assert len(endpoint.requests) == 40 + 20
    assert "labelled twice: 10 examples" in shown.checked().out


def test_teach_adds_labels_only_if_asked(
    manylabel: Command, client: Client, name: str, file: str, endpoint: StandIn
) -> None:
    model = client.create_model(name, promise=PARITY, sources={"machine": 1.0})
    model.describe_labels({"p": "Pets"})
    endpoint.respond = lambda _: completion('["Pets", "new"]')
    options = ("--teacher", endpoint.url, "--teacher-model", "llama")
    manylabel("teach", name, file, *options, "--unknown", "add").checked()
    assert {one.label for one in model.labels().labels} == {"p", "new"}


def test_teach_needs_a_promise_and_a_model_name(
    manylabel: Command, client: Client, name: str, file: str, program: str
) -> None:
    model = client.create_model(name, labels=[*NAMES], sources={"machine": 0.5})
    assert "promises no parity" in manylabel("teach", name, file, "--teacher", program).err
    options = ("--parity", "0.8", "--agreement", "f1", "--audit-rate", "0.1")
    told = manylabel("models", "set-promise", name, *options).checked().out
    assert told == f"{name} now promises parity 0.8\n"
    promise = {"parity": 0.8, "of": "machine", "agreement": "f1", "audit_rate": 0.1, "settled": None}
    assert model.status().promise == promise
    assert "at 80 % (mean F1)" in manylabel("evaluate", name).checked().out
    assert "The model promises no precision" in manylabel("evaluate", name, "--precision", "0.8").err
    assert "--teacher-model" in manylabel("teach", name, file, "--teacher", "http://localhost:1").err
