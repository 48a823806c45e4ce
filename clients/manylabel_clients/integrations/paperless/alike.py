"""Tags, correspondents and document types of paperless that look alike. A person merges them there."""

from collections.abc import Iterator

from manylabel_clients.http.resources.models import Model
from manylabel_clients.http.responses import LabelStatus
from manylabel_clients.integrations.paperless.archive import KINDS, Catalogue

MAX_SUGGESTIONS = 1_000
PAGE_LABELS = 1_000
REASONS = {
    "spelling": "the names differ only in spelling",
    "plural": "singular and plural of one word?",
    "slip": "the names differ in one letter",
    "together": "nearly always given together",
    "alike": "the model cannot tell them apart; most such labels are related, but not the same: read documents of both",
}
ADVICE = (
    "To merge two in paperless: filter the documents by the first, give all of them the second in a bulk edit, and "
    "delete the first. Nothing was changed."
)


def alike_lines(catalogue: Catalogue, model: Model) -> Iterator[str]:
    """Search the examples of the model, and yield a line for each pair of alike labels, the rarer label first."""
    from manylabel_core.label_health.names import similar_names  # imports NumPy, which other calls do not need

    counts = {each.label: each.examples for each in _labels(model)}
    why = dict[tuple[str, str], str]()
    for kind in KINDS:
        labels = sorted(catalogue.of(kind), key=lambda label: -counts.get(label, 0))
        names = {column: catalogue.titles[label] for column, label in enumerate(labels)}
        for pair in similar_names(names, range(len(labels))):
            why[labels[pair.second], labels[pair.first]] = pair.likeness
    model.search_doubts().wait()
    for one in model.health("merge", top=MAX_SUGGESTIONS).suggestions:
        if one.into is not None and {one.label, one.into} <= catalogue.titles.keys():
            why.setdefault((one.label, one.into), one.why)
    for (rarer, other), reason in why.items():
        shown = (
            f"{catalogue.titles[label]} ({label}, {counts.get(label, 0):,g} documents)" for label in (rarer, other)
        )
        yield f"{' and '.join(shown)}: {REASONS[reason]}"


def _labels(model: Model) -> Iterator[LabelStatus]:
    page = model.labels(limit=PAGE_LABELS)
    n_labels = 0
    while page.labels:
        yield from page.labels
        n_labels += len(page.labels)
        page = model.labels(limit=PAGE_LABELS, offset=n_labels)
