"""`manylabel health`: suggestions for the labels of a model."""

from typing import Annotated, get_args

import click

from manylabel_clients.command.declaring import Option
from manylabel_clients.command.options import AsJson, ModelName, remote
from manylabel_clients.command.output.tables import print_table, print_text
from manylabel_clients.command.output.text import count_of, print_as
from manylabel_clients.http.client import Client
from manylabel_clients.http.resources.label_health import KindOfSuggestion
from manylabel_clients.http.responses import LabelHealth, Suggestion


def _print(found: LabelHealth) -> None:
    searched = "without a search of the examples"
    if found.job is not None:
        searched = f"with {count_of(found.examined or 0, 'example')} up to position {found.position}"
    print_text(f"{count_of(len(found.suggestions), 'suggestion')} {searched}")
    if found.suggestions:
        columns = ("kind", "why", "label", "other", "examples", "together", "alike")
        print_table(columns, map(_row, found.suggestions), words=4)


def _row(suggestion: Suggestion) -> tuple[str, ...]:
    evidence = suggestion.evidence
    examples = " / ".join(f"{n:,g}" for n in evidence.examples)
    alike = "" if evidence.alike is None else f"{evidence.alike:.2f}"
    other = suggestion.into or suggestion.parent or ""
    return (suggestion.kind, suggestion.why, suggestion.label, other, examples, f"{evidence.together:,g}", alike)


@remote()
def health(
    client: Client,
    model: ModelName,
    kind: Annotated[
        KindOfSuggestion | None, Option(type=click.Choice(get_args(KindOfSuggestion)), help="The only kind.")
    ] = None,
    top: Annotated[int, Option(min=1, max=1_000, help="Maximum number of suggestions of each kind.")] = 20,
    search: Annotated[bool, Option(help="Search the examples first, and wait until the search has ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """List labels to merge, to put under a parent, to pause or to define better, with evidence. Nothing is changed.

    Example: `manylabel health tags --search`
    """
    handle = client.model(model)
    if search:
        job = handle.search_doubts()
        click.echo(f"job {job.id} searches", err=True)
        job.wait()
    print_as(as_json, handle.health(kind, top=top), _print)
