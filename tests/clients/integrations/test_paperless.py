"""The sidecar of paperless-ngx: learning from documents, assigning labels, and leaving the rest for review."""

import itertools
import json
import random
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.http_server import http_server
from tests.support.lazy import lazy
from tests.support.paperless import TOKEN, Paperless, paperless

from manylabel_clients import Client
from manylabel_clients.integrations.paperless import archive as archive_module
from manylabel_clients.integrations.paperless import sidecar as sidecar_module
from manylabel_clients.integrations.paperless.archive import Archive, PaperlessError
from manylabel_clients.integrations.paperless.listener import listening
from manylabel_clients.integrations.paperless.sidecar import REVIEW_TAG, TEXT, NoParity, Sidecar, Teaching
from manylabel_clients.integrations.teacher import TeacherRefuses, with_teacher

pypaperless = lazy("pypaperless")

INVOICE = "invoice amount due please pay iban {}"
LETTER = "dear sir kind regards meeting {}"


@pytest.fixture
def there() -> Iterator[Paperless]:
    with paperless() as served:
        yield served


@pytest.fixture
def filled(there: Paperless) -> Paperless:
    """Forty documents that a person has labelled, with tags, correspondents and types, and an inbox."""
    there.name("tags", "Inbox", 0, is_inbox_tag=True)
    finance, invoice = there.name("tags", "Finance"), there.name("tags", "Invoice", parent=2)
    there.name("tags", "By hand", 1)
    for name in ("Power Co", "Aunt Ada"):
        there.name("correspondents", name)
    for name in ("Bill", "Letter"):
        there.name("document_types", name)
    for number in range(20):
        more = {"tags": [finance, invoice, 4], "correspondent": 1, "document_type": 1}
        there.add(f"Bill {number}", INVOICE.format(number), **more)
        there.add(f"Hello {number}", LETTER.format(number), correspondent=2, document_type=2)
    return there


class Run:
    """A sidecar that synchronises on request."""

    def __init__(self, there: Paperless, client: Client, name: str, state: Path, **options: Any) -> None:
        self.lines: list[str] = []
        self.archive = Archive(there.url, TOKEN)
        self.model = client.model(name)
        options = {"sure": 0.6, **options}  # little was learnt
        self.sidecar = Sidecar(self.archive, client, name, state, report=self.lines.append, **options)


@pytest.fixture
def run(client: Client, name: str, tmp_path: Path) -> Callable[..., Run]:
    def make(there: Paperless, **options: Any) -> Run:
        return Run(there, client, name, tmp_path / "state.json", **options)

    return make


def names(there: Paperless, id: int) -> set[str]:
    return {there.names["tags"][tag]["name"] for tag in there.documents[id]["tags"]}


def test_labelled_documents_are_learnt_with_their_groups(filled: Paperless, run: Any) -> None:
    first = run(filled)
    first.sidecar.sync()
    status = first.model.status()
    assert status.updates == 40
    assert status.parents == {"tag:3": "tag:2"}
    assert {group["name"]: sorted(group["labels"]) for group in status.groups} == {
        "correspondent": ["correspondent:1", "correspondent:2"],
        "type": ["type:1", "type:2"],
    }
    labels = {each.label: each for each in first.model.labels().labels}
    assert labels.keys() == {"tag:2", "tag:3", "correspondent:1", "correspondent:2", "type:1", "type:2"}, (
        "no other tags"
    )
    assert labels["tag:3"].title == "Invoice"
    assert not filled.edits
    run(filled).sidecar.sync()  # another process
    assert first.model.status().updates == 40, "nothing is learnt twice"


def test_a_new_document_gets_the_certain_labels(filled: Paperless, run: Any) -> None:
    started = run(filled)
    started.sidecar.sync()
    bill = filled.add("A bill", INVOICE.format("new"), tags=[1])
    letter = filled.add("A letter", LETTER.format("new"), tags=[1])
    odd = filled.add("Odd", "nothing that was ever seen", tags=[1])
    seen = filled.add("Seen by a person", INVOICE.format("seen"))
    started.sidecar.sync()
    assert {"Finance", "Invoice", "Inbox"} <= names(filled, bill)
    assert (filled.documents[bill]["correspondent"], filled.documents[bill]["document_type"]) == (1, 1)
    assert (filled.documents[letter]["correspondent"], filled.documents[letter]["document_type"]) == (2, 2)
    assert not {"Finance", "Invoice"} & names(filled, letter)
    assert REVIEW_TAG in names(filled, odd), "it is sure of nothing"
    assert names(filled, seen) == set(), "a document without an inbox tag is left alone"
    assert started.model.status().updates == 41, "it was learnt, and none of the others"
    n_edits = len(filled.edits)
    started.sidecar.sync()
    assert len(filled.edits) == n_edits
    assert started.model.status().updates == 41, "what it has assigned is no truth"


def test_corrections_are_learnt_and_not_undone(filled: Paperless, run: Any) -> None:
    started = run(filled)
    started.sidecar.sync()
    bill = filled.add("A bill", INVOICE.format("new"), tags=[1])
    started.sidecar.sync()
    assert "Invoice" in names(filled, bill)
    review = next((id for id, tag in filled.names["tags"].items() if tag["name"] == REVIEW_TAG), None)
    filled.edit(bill, tags=[tag for tag in filled.documents[bill]["tags"] if tag not in (3, review)])
    started.sidecar.sync()
    assert "Invoice" not in names(filled, bill), "a tag that a person removed does not come back"
    assert started.model.status().updates == 40, "it is still in the inbox"
    filled.edit(bill, tags=[2], correspondent=2)
    started.sidecar.sync()
    assert started.model.status().updates == 41
    assert {each.label: each.examples for each in started.model.labels().labels}["correspondent:2"] == 21
    filled.edit(bill, tags=[])
    started.sidecar.sync()
    assert started.model.status().updates == 42, "a correction is learnt as well"


def test_a_teacher_labels_what_the_model_is_not_sure_of(filled: Paperless, run: Any) -> None:
    asked: list[str] = []

    def teacher_for(titles: Mapping[str, str]) -> Callable[[Any], list[str]]:
        names = {title: label for label, title in titles.items()}

        def teacher(x: Any) -> list[str]:
            asked.append(x["title"])
            bill = ["Invoice", "Finance", "Power Co", "Bill"]
            return [names[title] for title in (bill if "invoice" in x["content"] else ["Aunt Ada", "Letter"])]

        return teacher

    for id in list(filled.documents):
        filled.edit(id, tags=[1])  # a person has seen none
    started = run(filled, teaching=Teaching(teacher_for, 0.5))
    started.sidecar.sync()
    assert len(asked) > 2, "a new model asks from the first document on"
    for number in range(200):
        filled.add(f"Bill {number}", INVOICE.format(number), tags=[1])
        filled.add(f"Hello {number}", LETTER.format(number), tags=[1])
    started.sidecar.sync()
    n_documents = len(filled.documents)
    assert len(asked) < n_documents - 20, "the model answers alone what it is sure of"
    status = started.model.status()
    assert (status.updates, status.promise["parity"]) == (len(asked), 0.5)
    wrong = [
        id
        for id, document in filled.documents.items()
        if ("Invoice" in names(filled, id)) != ("invoice" in document["content"])
    ]
    assert len(wrong) < 0.5 * n_documents
    assert not any(REVIEW_TAG in names(filled, id) for id in filled.documents if id not in wrong)


@for_each("failure", [TeacherRefuses("filtered"), ["correspondent:1", "correspondent:2"], ["tag:99"]])
def test_a_document_without_an_answer_of_the_teacher_is_for_review(
    there: Paperless, client: Client, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Any
) -> None:
    there.name("tags", "Inbox", 0, is_inbox_tag=True)
    for each in ("Power Co", "Aunt Ada"):
        there.name("correspondents", each)
    id = there.add("Bill", INVOICE.format(1), tags=[1])

    def teacher(_: Any) -> Any:
        if isinstance(failure, Exception):
            raise failure
        return failure

    monkeypatch.setattr(sidecar_module, "with_teacher", partial(with_teacher, sleep=lambda _: None))
    model = f"{name[-30:].strip('-')}-{len(str(failure))}"
    started = Run(there, client, model, tmp_path / f"{model}.json", teaching=Teaching(lambda _: teacher, 0.95))
    started.sidecar.sync()
    assert REVIEW_TAG in names(there, id)
    assert there.documents[id]["correspondent"] is None
    assert started.model.status().updates == 0
    assert any("the teacher" in line for line in started.lines)


def test_a_model_without_parity_has_no_teacher(filled: Paperless, run: Any) -> None:
    run(filled).sidecar.sync()
    with pytest.raises(NoParity, match="promises no parity"):
        run(filled, teaching=Teaching(lambda _: lambda _: [], 0.95)).sidecar.sync()


def test_without_an_inbox_every_prediction_waits_for_review(there: Paperless, run: Any) -> None:
    finance = there.name("tags", "Finance")
    for number in range(20):
        there.add(f"Bill {number}", INVOICE.format(number), tags=[finance])
        there.add(f"Hello {number}", LETTER.format(number))
    started = run(there, clock=lambda: there._now + timedelta(milliseconds=500))
    started.sidecar.sync()
    assert started.model.status().updates == 40
    assert not there.edits, "what was there is not changed"
    bill = there.add("A bill", INVOICE.format("new"))
    started.sidecar.sync()
    assert names(there, bill) == {"Finance", REVIEW_TAG}
    assert started.model.status().updates == 40
    there.edit(bill, tags=[finance])
    started.sidecar.sync()
    assert started.model.status().updates == 41


def test_nothing_is_predicted_before_enough_is_learnt(
    there: Paperless, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    there.name("tags", "Inbox", 0, is_inbox_tag=True)
    there.name("tags", "Finance")
    waits = there.add("A bill", INVOICE.format("new"), tags=[1])
    for number in range(sidecar_module.MIN_LEARNT - 1):
        there.add(f"Bill {number}", INVOICE.format(number), tags=[2])
    started = run(there)
    started.sidecar.sync()
    started.sidecar.sync()
    assert not there.edits
    there.add("One more", INVOICE.format("more"), tags=[2])
    started.sidecar.sync()
    started.sidecar.sync()
    assert "Finance" in names(there, waits)


def test_a_dry_run_changes_nothing(filled: Paperless, run: Any, tmp_path: Path) -> None:
    started = run(filled, dry_run=True)
    filled.add("A bill", INVOICE.format("new"), tags=[1])
    started.sidecar.sync()
    started.sidecar.sync()
    assert any("sure of" in line and "Invoice" in line for line in started.lines)
    assert not filled.edits
    assert not (tmp_path / "state.json").exists()


def test_the_promise_of_a_model_decides_which_labels_are_applied(filled: Paperless, run: Any, monkeypatch: Any) -> None:
    class Promised:
        labels, auto, probabilities = ["tag:2", "tag:3"], ["tag:2"], None

    started = run(filled)
    started.sidecar.sync()
    bill = filled.add("A bill", INVOICE.format("new"), tags=[1])
    monkeypatch.setattr(type(started.model), "predict", lambda *_, **__: Promised())
    started.sidecar.sync()
    assert names(filled, bill) == {"Inbox", "Finance", REVIEW_TAG}


def test_documents_with_equal_times_are_all_read(there: Paperless, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "PAGE_DOCUMENTS", 3)
    ids = [there.add(f"{number}", "text") for number in range(20)]
    for id in ids[4:15]:
        there.documents[id]["modified"] = there.documents[4]["modified"]
    archive, read = Archive(there.url, TOKEN), []
    for document in archive.documents("modified", sidecar_module.BEGINNING):
        read.append(document.id)
        if document.id == ids[0]:
            there.edit(ids[1])  # while it is read, a document moves to the end
    assert set(read) == set(ids)
    assert len(read) <= len(ids) + 1


def test_no_other_host_is_contacted(there: Paperless) -> None:
    asked: list[str] = []

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)

    with http_server(Other) as other:
        there.next_host = other
        for number in range(150):
            there.name("tags", f"tag {number}")
        archive = Archive(there.url, TOKEN)
        assert len(archive.catalogue().titles) == 150
        there.refusing = 302
        with pytest.raises(PaperlessError, match="302"):
            archive.catalogue()
    assert not asked
    assert not any("elsewhere" in each for each in there.requests)


@pytest.mark.parametrize("fields", [{"tags": None}, {"modified": None}, {"tags": ["x"]}, {"id": "x"}, {"modified": 5}])
def test_responses_of_other_programs_are_refused(there: Paperless, fields: dict[str, Any]) -> None:
    there.add("A", "text")
    there.documents[1].update(fields)
    if fields.get("modified", "") is None or fields.get("modified") == 5:
        there.get = lambda path, query: {"results": [*there.documents.values()], "next": None}  # type: ignore[method-assign]
    with pytest.raises(PaperlessError):
        list(Archive(there.url, TOKEN).documents("modified", sidecar_module.BEGINNING))


TAG = {"id": 1, "name": "a", "matching_algorithm": 6}


@for_each(
    "response",
    [
        *([], None, 1, {}, {"results": None}, {"results": [1]}, {"results": {"id": 1}}, {"results": [{}]}),
        *[{"results": [{**TAG, "name": name}]} for name in (5, None)],
        *[{"results": [{**TAG, "id": id}]} for id in ("1", True, [1])],
        {"results": [{**TAG, "parent": {}}]},
    ],
)
def test_names_of_other_programs_are_refused(there: Paperless, response: Any) -> None:
    there.get = lambda path, query: response  # type: ignore[method-assign]
    with pytest.raises(PaperlessError):
        Archive(there.url, TOKEN).catalogue()


def test_a_response_of_any_depth_is_refused(there: Paperless) -> None:
    class Deep(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"[" * 100_000)

    with http_server(Deep) as url, pytest.raises(PaperlessError, match="GET tags/"):
        Archive(url, TOKEN).catalogue()


def test_pages_without_end_are_read_in_parts(there: Paperless, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "MAX_DOCUMENTS", 50)
    monkeypatch.setattr(archive_module, "MAX_PAGES", 3)
    there.add("A", "text")
    document = dict(there.documents[1])
    numbers = itertools.count(1)
    there.get = lambda path, query: {  # type: ignore[method-assign]
        "results": [{**document, **TAG, "id": next(numbers)} for _ in range(25)],
        "next": "more",
    }
    archive = Archive(there.url, TOKEN)
    assert len(list(archive.documents("modified", sidecar_module.BEGINNING))) == 50
    with pytest.raises(PaperlessError, match="more than"):
        archive.catalogue()


def test_odd_times_and_texts_are_learnt(there: Paperless, run: Any) -> None:
    there.name("tags", "Finance")
    for text in ("half a character \ud83d", "\x00", ""):
        there.add(text, text, tags=[1])
    for time in (
        "0001-01-01T00:00:00+00:00",
        "0001-01-01T00:00:00",
        "2001-02-03T04:05:06",
        "2001-02-03 04:05:06+14:00",
    ):
        id = there.add("A", "text", tags=[1])
        there.documents[id].update(added=time, modified=time)
    rows = sorted(there.documents.values(), key=lambda row: archive_module.parse_time(row["modified"]))
    there.get = lambda path, query: {  # type: ignore[method-assign]
        "results": rows if path == "documents" else list(there.names[path].values()),
        "next": None,
    }
    started = run(there)
    started.sidecar.sync()
    assert started.model.status().updates == 7


def test_a_document_of_the_future_hides_no_other(filled: Paperless, run: Any) -> None:
    started = run(filled)
    started.sidecar.sync()
    odd = filled.add("From the future", INVOICE.format("odd"))
    time = "9999-12-31T23:59:59.999999+00:00"
    filled.documents[odd].update(added=time, modified=time)
    for _ in range(3):
        started.sidecar.sync()
    assert len([line for line in started.lines if "in the future" in line]) == 1
    filled.add("A bill", INVOICE.format("new"), tags=[2])
    started.sidecar.sync()
    assert started.model.status().updates == 41
    filled.edit(odd, added=filled.now())
    started.sidecar.sync()
    assert started.model.status().updates == 42


@pytest.mark.parametrize(
    "content",
    ["[]", '{"modified": 5}', '{"added": "x"}', '{"predicted": ["a"]}', '{"more": 1}', "[" * 10_000],
)
def test_another_file_is_not_taken_for_the_progress(
    filled: Paperless, command: Any, client: Client, name: str, tmp_path: Path, monkeypatch: Any, content: str
) -> None:
    monkeypatch.setenv("MANYLABEL_URL", client.base_url)
    monkeypatch.setenv("PAPERLESS_TOKEN", TOKEN)
    file = tmp_path / "s.json"
    file.write_text(content)
    done = command("paperless", "--paperless", filled.url, "--model", name, "--state", str(file), "--once")
    assert done.status == 1
    assert "s.json is not the progress of this sidecar" in done.err
    assert file.read_text() == content


@pytest.mark.parametrize("content", ["", "\0" * 60, '{"modified": "2024-01-01T00:00:0', "\xe9"])
def test_a_damaged_file_counts_as_lost_and_is_kept(filled: Paperless, run: Any, tmp_path: Path, content: str) -> None:
    file = tmp_path / "state.json"
    file.write_text(content, encoding="latin-1")
    first = run(filled)
    assert first.lines[0].startswith(f"{file} is damaged (")
    first.sidecar.sync()
    assert first.model.status().updates == 40
    assert (tmp_path / "state.json.damaged").read_text(encoding="latin-1") == content
    file.write_text("{")
    run(filled)
    assert (tmp_path / "state.json.damaged").read_text(encoding="latin-1") == content
    assert (tmp_path / "state.json.damaged1").read_text() == "{"
    first.sidecar.sync()
    assert not run(filled).lines


def test_a_refused_document_is_named_and_the_others_are_learnt(filled: Paperless, run: Any) -> None:
    words = " ".join(f"w{n}" for n in range(15_000))
    refused = filled.add("Long", words, tags=[3], correspondent=1, document_type=1)
    first = run(filled)
    first.sidecar._client.create_model(first.model.name, text={**TEXT, "chars": [3, 5]})
    first.sidecar.sync()
    assert first.model.status().updates == 40
    assert [line for line in first.lines if line.startswith(f"document {refused} is not learnt: ")]
    assert run(filled).sidecar.sync() is None
    new = filled.add("Long", words, tags=[1])
    filled.add("Bill 77", INVOICE.format(77), tags=[1])
    again = run(filled)
    again.sidecar.sync()
    assert again.lines[0].partition(":")[0] == f"document {new} is not predicted"
    assert len(filled.edits) > 0, "the document after it is predicted"


def test_names_are_printed_without_control_characters(
    filled: Paperless, command: Any, client: Client, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANYLABEL_URL", client.base_url)
    monkeypatch.setenv("PAPERLESS_TOKEN", TOKEN)
    filled.names["tags"][3]["name"] = "Invoice\x1b[2J\x07"
    options = ("--paperless", filled.url, "--model", name, "--state", str(tmp_path / "s.json"), "--once")
    command("paperless", *options)
    filled.add("A bill", INVOICE.format("new"), tags=[1])
    done = command("paperless", *options, "--sure", "0.5")
    assert "Invoice" in done.out
    assert "\x1b" not in done.out


def test_errors_name_the_request_and_never_the_token(there: Paperless) -> None:
    there.refusing = 500
    with pytest.raises(PaperlessError, match=r"GET tags/: status 500") as failed:
        Archive(there.url, TOKEN).catalogue()
    there.refusing = None
    with pytest.raises(PaperlessError, match="401") as refused:
        Archive(there.url, "t0p-s3cret").catalogue()
    with pytest.raises(PaperlessError) as closed:
        Archive("http://127.0.0.1:1", TOKEN).catalogue()
    told = f"{failed.value}{refused.value}{closed.value}"
    assert TOKEN not in told
    assert "t0p-s3cret" not in told


def test_an_endless_response_is_cut_off(there: Paperless, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "MAX_BYTES", 100)
    there.add("A", "text " * 100)
    with pytest.raises(PaperlessError, match="more than 100 bytes"):
        list(Archive(there.url, TOKEN).documents("modified", sidecar_module.BEGINNING))


def test_a_webhook_wakes_the_sidecar_and_its_body_is_ignored() -> None:
    wake = threading.Event()
    with listening("127.0.0.1", 0, wake) as port:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/any", b'{"id": "../../etc"}', method="POST")
        with urllib.request.urlopen(request, timeout=600) as response:
            assert (response.status, response.read()) == (204, b"")
    assert wake.is_set()


def test_the_command_learns_once_and_reports_errors(
    filled: Paperless, command: Any, client: Client, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANYLABEL_URL", client.base_url)
    monkeypatch.setenv("PAPERLESS_TOKEN", TOKEN)
    options = ("--paperless", filled.url, "--model", name, "--state", str(tmp_path / "s.json"), "--once")
    done = command("paperless", *options)
    assert (done.status, done.out) == (0, "learnt 40 documents\n"), done.err
    assert set(json.loads((tmp_path / "s.json").read_text())) == {"modified", "added", "predicted"}
    filled.refusing = 503
    failed = command("paperless", *options)
    assert (failed.status, failed.err) == (1, "manylabel: GET tags/: status 503\n")
    monkeypatch.delenv("PAPERLESS_TOKEN")
    assert "PAPERLESS_TOKEN" in command("paperless", *options).err
    assert command("paperless", *options[2:], "--paperless", "ftp://x").status == 2
    monkeypatch.setenv("PAPERLESS_TOKEN", TOKEN)
    for wrong in ("8011", "host:", "host:99999", ":1"):
        assert command("paperless", *options, "--listen", wrong).status == 2


def test_labels_that_look_alike_are_printed_and_left_alone(
    there: Paperless, run: Any, command: Any, client: Client, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    money, costs, other = (there.name("tags", tag) for tag in ("Money", "Costs", "money "))
    there.name("correspondents", "Money")
    there.name("tags", "MONEY", 1)  # is not matched automatically
    chance = random.Random(1)
    for number in range(160):
        if chance.random() < 0.5:
            there.add("A bill", INVOICE.format(number), tags=[chance.choice([money, costs])])
        else:
            there.add("Hello", LETTER.format(number), tags=[other] if number < 6 else [])
    run(there).sidecar.sync()
    monkeypatch.setenv("MANYLABEL_URL", client.base_url)
    monkeypatch.setenv("PAPERLESS_TOKEN", TOKEN)
    options = ("--paperless", there.url, "--model", name, "--state", str(tmp_path / "s.json"), "--alike")
    before = json.dumps([there.names, there.documents])
    there.requests.clear()
    names, merge, advice = command("paperless", *options).checked().out.splitlines()
    assert names.startswith("money  (tag:3, 2 documents) and Money (tag:1, ")
    assert names.endswith(" documents): the names differ only in spelling")
    assert "Money (tag:1, " in merge
    assert "Costs (tag:2, " in merge
    assert "cannot tell them apart" in merge
    assert "Nothing was changed" in advice
    assert json.dumps([there.names, there.documents]) == before
    assert all(request.startswith("GET") for request in there.requests)
    assert not (tmp_path / "s.json").exists()


@pytest.mark.usefixtures("dev_extra")
async def test_the_public_client_of_paperless_reads_the_stand_in(filled: Paperless) -> None:
    """So the tests above are about paperless' interface as the public client of it knows it."""
    async with pypaperless.Paperless(filled.url, TOKEN) as client:
        document = await client.documents(1)
        tags = [tag async for tag in client.tags]
        correspondents = [each async for each in client.correspondents]
        documents = [each async for each in client.documents]
    archive = Archive(filled.url, TOKEN)
    ours = {each.id: each for each in archive.documents("added", sidecar_module.BEGINNING)}
    assert (document.title, document.content) == tuple(ours[1].record.values())
    assert ours[1].labels == {
        *(f"tag:{tag}" for tag in document.tags),
        f"correspondent:{document.correspondent}",
        f"type:{document.document_type}",
    }
    assert sorted(each.id for each in documents) == sorted(ours)
    catalogue = archive.catalogue()
    assert {tag.id for tag in tags if tag.is_inbox_tag} == catalogue.inbox
    assert {tag.name: tag.id for tag in tags} == catalogue.tags
    assert {each.name for each in correspondents} == {
        catalogue.titles[label] for label in catalogue.of("correspondent")
    }
