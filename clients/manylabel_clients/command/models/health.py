"""`manylabel health` and `undo`: list, apply and dismiss suggestions for the labels of a model."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, get_args

import click

from manylabel_clients.command.declaring import Argument, Option
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.options import AsJson, ModelName, Yes, remote
from manylabel_clients.command.output.tables import print_table, print_text
from manylabel_clients.command.output.terminal import printable
from manylabel_clients.command.output.text import count_of, print_as, print_json
from manylabel_clients.http.client import Client
from manylabel_clients.http.resources.label_health import KindOfSuggestion
from manylabel_clients.http.resources.models import Model
from manylabel_clients.http.responses import LabelHealth, Suggestion

MAX_LISTED = 1_000
"""Maximum number of suggestions of each kind that the server lists."""

REASONS = {
    "spelling": "the names differ only in spelling",
    "plural": "the names are the singular and the plural of one word",
    "slip": "the names differ in one letter",
    "together": "they are nearly always given together",
    "alike": "the model cannot tell them apart; most such labels are related, but not the same: read examples first",
    "implied": "nearly all examples with the one also have the other",
    "unused": "it has been unused three times longer than ever before; such labels often return",
    "rare": "it is rare, and was last used long ago; such labels often return",
}
"""Reasons of the suggestions that have a request."""


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
    alike = "" if evidence.alike is None else f"{evidence.alike:.2f}"
    numbers = _examples(suggestion), f"{evidence.together:,g}", alike
    return (suggestion.kind, suggestion.why, suggestion.label, _other(suggestion) or "", *numbers)


def _examples(suggestion: Suggestion) -> str:
    return " / ".join(f"{n:,g}" for n in suggestion.evidence.examples)


def _other(suggestion: Suggestion) -> str | None:
    return suggestion.into or suggestion.parent


def _id(suggestion: Suggestion) -> tuple[str, str, str | None]:
    return suggestion.kind, suggestion.label, _other(suggestion)


def _change(suggestion: Suggestion) -> str:
    """Return the change as an imperative."""
    return _imperative(*_id(suggestion))


def _imperative(kind: str, label: str, other: str | None) -> str:
    match kind:
        case "pause":
            return f"pause {label}"
        case "parent":
            return f"put {label} under {other}"
        case "vague":
            return f"define {label} better"
    return f"merge {label} into {other}"


class Chosen:
    """Suggestions of a kind or about a label, listed again after each change, because a change can alter the others."""

    def __init__(self, model: Model, kind: KindOfSuggestion | None, label: str | None, top: int) -> None:
        self._model, self._kind, self._label, self._top = model, kind, label, top

    def listed(self) -> LabelHealth:
        """Return the current list of suggestions."""
        found = self._model.health(self._kind, top=self._top if self._label is None else MAX_LISTED)
        if self._label is not None:
            found.suggestions[:] = [one for one in found.suggestions if self._label in (one.label, _other(one))]
        return found

    def each(self) -> Iterator[Suggestion]:
        """Yield each suggestion once."""
        seen = set[tuple[str, str, str | None]]()
        while new := [one for one in self.listed().suggestions if _id(one) not in seen]:
            seen.add(_id(new[0]))
            yield new[0]


def _decided(suggestion: Suggestion) -> str:
    """Show a suggestion to a person, and return the answer: y, n, d or q."""
    click.echo()
    print_text(printable(f"{_change(suggestion)}: {REASONS[suggestion.why]}"))
    alike = suggestion.evidence.alike
    print_text(
        f"examples {_examples(suggestion)}, together {suggestion.evidence.together:,g}"
        + ("" if alike is None else f", alike {alike:.2f}")
        + f"; {count_of(int(suggestion.evidence.changes), 'learnt example')} would have other labels"
    )
    answer: str = click.prompt("apply? y, n, d(ismiss), q(uit)", type=click.Choice("yndq"), show_choices=False)
    return answer


def _applied(model: Model, chosen: Chosen, yes: bool, as_json: bool) -> None:
    done = 0
    for suggestion in chosen.each():
        if suggestion.request is None:
            continue
        answer = "y" if yes else _decided(suggestion)
        if answer == "q":
            break
        if answer == "y":
            _tell(model, suggestion, "applied", model.apply(suggestion).position, as_json)
        elif answer == "d":
            _tell(model, suggestion, "dismissed", model.dismiss(suggestion).position, as_json)
        done += answer in "yd"
    if yes and not done:
        raise Failure("none of these suggestions can be applied")


def _dismissed(model: Model, chosen: Chosen, as_json: bool) -> None:
    done = 0
    for suggestion in chosen.each():
        _tell(model, suggestion, "dismissed", model.dismiss(suggestion).position, as_json)
        done += 1
    if not done:
        raise Failure("none of these suggestions exists")


def _tell(model: Model, suggestion: Suggestion, done: str, position: str, as_json: bool) -> None:
    if as_json:
        kind, label, other = _id(suggestion)
        return print_json({"kind": kind, "label": label, "other": other, "done": done, "position": position})
    print_text(printable(f"{done}: {_change(suggestion)} (undo: manylabel undo {model.name} {position})"))
    return None


def _tried(model: Model, chosen: Chosen, as_json: bool) -> None:
    """Try each suggestion that has a request in a job, and print the metrics without and with the change."""
    found = [one for one in chosen.listed().suggestions if one.request is not None]
    if not found:
        raise Failure("none of these suggestions can be applied")
    for suggestion in found:
        job = model.dry_run(suggestion)
        click.echo(f"job {job.id} learns the examples without and with the change", err=True)
        result = job.wait().result
        assert isinstance(result, dict)
        print_as(as_json, result, _print_comparison)


def _print_comparison(result: Mapping[str, Any]) -> None:
    before, after = result["before"], result["after"]
    changes = f"{result['changes']:,} of {count_of(result['examples'], 'example')} would have other labels"
    tried = result["suggestion"]
    print_text(printable(f"{_imperative(tried['kind'], tried['label'], tried['other'])}: {changes}"))
    for conflict in result["conflicts"]:
        print_text(printable(conflict))
    rows = [("micro-F1", before["micro_f1"], after["micro_f1"]), ("macro-F1", before["macro_f1"], after["macro_f1"])]
    if before["either_name"] is not None:
        rows.append(("F1 if either name counts", before["either_name"], after["either_name"]))
    names = dict.fromkeys([*before["labels"], *after["labels"]])
    f1 = [[each["labels"].get(name, {}).get("f1") for each in (before, after)] for name in names]
    rows += [(f"F1 of {name}", *numbers) for name, numbers in zip(names, f1, strict=True)]
    print_table(
        ("predicted before learnt", "without", "with"),
        [(title, *("-" if one is None else f"{one:.4f}" for one in numbers)) for title, *numbers in rows],
    )


@remote()
def health(
    client: Client,
    model: ModelName,
    kind: Annotated[
        KindOfSuggestion | None, Option(type=click.Choice(get_args(KindOfSuggestion)), help="The only kind.")
    ] = None,
    label: Annotated[str | None, Option(help="Only suggestions about this label.")] = None,
    top: Annotated[int, Option(min=1, max=MAX_LISTED, help="Maximum number of suggestions of each kind.")] = 20,
    search: Annotated[bool, Option(help="Search the examples first, and wait until the search has ended.")] = False,
    apply: Annotated[bool, Option(help="Ask about one after another, and apply or dismiss it.")] = False,
    dismiss: Annotated[bool, Option(help="Dismiss the suggestions about the label.")] = False,
    dry_run: Annotated[
        bool, Option(help="Show the metrics without and with each change; the model does not change.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """List labels to merge, to put under a parent, to pause or to define better, with evidence.

    Nothing is changed. With --apply, the command makes the changes that you accept, and prints how to undo them.

    Example: `manylabel health tags --search`
    """
    if apply + dismiss + dry_run > 1:
        raise click.BadParameter("give only one of --apply, --dismiss and --dry-run", param_hint="--apply")
    if dismiss and label is None:
        raise click.BadParameter("needs --label", param_hint="--dismiss")
    if yes and kind is None and label is None:
        raise click.BadParameter("needs --kind or --label", param_hint="--yes")
    if apply and as_json and not yes:
        raise click.BadParameter(
            "is not possible with --apply, which asks for confirmation: add --yes, or omit --json", param_hint="--json"
        )
    handle = client.model(model)
    if search:
        job = handle.search_doubts()
        click.echo(f"job {job.id} searches", err=True)
        job.wait()
    chosen = Chosen(handle, kind, label, top)
    if apply:
        _applied(handle, chosen, yes, as_json)
    elif dismiss:
        _dismissed(handle, chosen, as_json)
    elif dry_run:
        _tried(handle, chosen, as_json)
    else:
        print_as(as_json, chosen.listed(), _print)


@remote()
def undo(
    client: Client,
    model: ModelName,
    position: Annotated[str, Argument(metavar="POSITION", help="Position of the entry with the change.")],
    as_json: AsJson = False,
) -> None:
    """Take back a change of labels: a merge, a parent, a pause, a new name, a dismissal.

    Example: `manylabel undo tags 812`
    """
    done = client.model(model).undo(position)
    how = {"rollback": "by a rollback", "inverse": "by the opposite change"}[done.how]
    print_as(as_json, done, lambda done: click.echo(f"undone {how}; {model} is at position {done.position}"))
