"""Reports of how a file is read, without learning it."""

from typing import TYPE_CHECKING, Annotated, Any

from manylabel_clients.command.data.files import readable
from manylabel_clients.command.declaring import Option

if TYPE_CHECKING:
    from manylabel_clients.river.files import FileStream
    from manylabel_core.datasets import Dataset

DryRun = Annotated[
    bool,
    Option("--dry-run", help="Learn nothing; show what each column is read as, the labels, and the first rows."),
]


def report_of(source: "FileStream | Dataset") -> dict[str, Any]:
    """Return a report of how a file is read, as plain JSON; raise Failure if the file is damaged."""
    from manylabel_clients.river.files import FileStream
    from manylabel_core.datasets.report import ExamplesReport, report_of_counts

    report = getattr(source, "report", None)
    if report is None and isinstance(source, FileStream):
        found = ExamplesReport()
        with readable():
            for x, y, *_ in source.examples():
                found.add(x, y)
        n_unlabelled = getattr(source, "n_unlabelled", 0)
        told = found.done().to_json()
        return {**told, "rows": told["rows"] + n_unlabelled, "unlabelled": n_unlabelled}
    if report is None:
        assert not isinstance(source, FileStream)
        counts = dict(zip(source.label_names, source.label_counts().tolist(), strict=True))
        report = report_of_counts(counts, source.n_rows, int((~source.labelled).sum()))
    result: dict[str, Any] = report.to_json()
    return result
