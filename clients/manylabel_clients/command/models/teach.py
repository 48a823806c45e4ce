"""`manylabel teach`: label examples with a model, and with a teacher if the model is not sure."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from itertools import islice
from typing import Annotated

import click

from manylabel_clients.command.data.files import PLAIN, LabelColumns, UnlabelledRowOptions, as_learnt
from manylabel_clients.command.declaring import Option
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.inputs import read_items
from manylabel_clients.command.options import PATIENT, AsJson, Input, ModelName, remote
from manylabel_clients.command.output.measures import number, print_parity
from manylabel_clients.command.output.tables import print_table
from manylabel_clients.command.output.text import print_as, print_json
from manylabel_clients.command.teachers import DEFAULTS, TEACHER_HELP, TeacherOptions, open_teacher
from manylabel_clients.http.client import Client
from manylabel_clients.http.resources.models import Model
from manylabel_clients.integrations.teacher import Answer, SelfAgreement, with_teacher
from manylabel_clients.integrations.teacher import self_agreement as agreement_of
from manylabel_clients.integrations.teacher.endpoint import Label

MAX_LISTED = 1_000
"""Maximum number of labels per request."""


@remote(retry=PATIENT)
def teach(
    client: Client,
    model: ModelName,
    source: Input,
    teacher: Annotated[str, Option(metavar="COMMAND|URL", help=TEACHER_HELP)],
    labels: LabelColumns = None,
    table: UnlabelledRowOptions = PLAIN,
    asking: TeacherOptions = DEFAULTS,
    unknown: Annotated[
        str, Option(type=click.Choice(("refuse", "add")), help="Labels of the teacher that the model does not know.")
    ] = "refuse",
    workers: Annotated[int, Option(min=1, max=64, help="Maximum number of simultaneous calls of the teacher.")] = 8,
    self_agreement: Annotated[
        int | None,
        Option(
            metavar="N",
            min=1,
            help="Only call the teacher twice for the first N examples, and show how much parity can be promised.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Label examples with a model that promises parity; ask a teacher if the model is not sure.

    The model learns each answer of the teacher. Each line of the output has the labels, and says who answered. The
    account of the promise follows.

    Example: `manylabel teach tags new.jsonl --teacher http://localhost:11434/v1 --teacher-model llama3.1`
    """
    handle = client.model(model)
    known = _labels(handle)
    if unknown == "refuse" and not known:
        raise Failure(f"{model} knows no labels: declare them, or give --unknown add")
    items = read_items(source, False, labels, as_learnt(handle, source, labels, table))
    vocabulary = None if unknown == "add" else known.keys()
    with ExitStack() as stack:
        call = open_teacher(stack, teacher, asking, known, unknown == "add")
        if self_agreement is not None:
            found = agreement_of(
                call, islice((item.x for item in items), self_agreement), workers=workers, labels=vocabulary
            )
            print_as(as_json, found._asdict(), lambda _: _print_agreement(found))
            return
        if "parity" not in (getattr(handle.status(), "promise", None) or {}):
            raise Failure(f"{model} promises no parity; run manylabel models set-promise {model} --parity 0.95")
        loop = with_teacher(handle, call, labels=vocabulary)
        failed = 0
        for answer in loop.many((item.x for item in items), workers=workers):
            failed += answer.error is not None
            _print(answer, as_json)
    account = (handle.metrics().promise or {}).get("parity")
    if account is not None and not as_json:
        print_parity(account)
    if failed:
        raise Failure(f"the teacher did not answer {failed:,} examples: none of them was learnt")


def _labels(model: Model) -> Mapping[str, Label]:
    """Return the labels that the model learns, with their titles and descriptions for a language model."""
    found, offset = dict[str, Label](), 0
    while (page := model.labels(limit=MAX_LISTED, offset=offset)).labels:
        offset += len(page.labels)
        current = (one for one in page.labels if not one.retired and not one.paused)
        found.update({one.label: Label(one.title, one.description) for one in current})
    return found


def _print_agreement(found: SelfAgreement) -> None:
    click.echo(f"labelled twice: {found.examples:,} examples; failed: {found.failed:,}")
    if found.ceiling is not None:
        rows = [
            (name, number(agreement), number(ceiling))
            for name, agreement, ceiling in zip(("exact", "f1"), found[2:], found.ceiling, strict=True)
        ]
        print_table(("agreement", "teacher with itself", "promise at most"), rows)


def _print(answer: Answer, as_json: bool) -> None:
    who = "teacher" if answer.asked else "model"
    error = None if answer.error is None else str(answer.error)
    if as_json:
        prediction = answer.prediction
        print_json({"labels": answer.labels, "by": who, "why": prediction.why, "id": prediction.id, "error": error})
    else:
        told = error if answer.labels is None else ", ".join(map(_written, answer.labels))
        click.echo(f"{who:<7}  {told}")


def _written(label: str) -> str:
    return json.dumps(label, ensure_ascii=False) if set(label) & set(',"\n\r') else label
