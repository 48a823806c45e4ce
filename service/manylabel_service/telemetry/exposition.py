"""Metric families in Prometheus' text format, written in time slices, so that a scrape does not delay other requests.

`prometheus_client.generate_latest` writes the same text in one step, which takes a third of a second for a thousand
models.
"""

import re
from collections.abc import Callable, Iterable, Mapping

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from manylabel_service.slices import Pace

SLICE_LINES = 64
"""Number of lines between two checks of the clock."""


_MODEL = re.compile(rb'^[^#].*[{,]model="([^"]*)"')
"""Pattern of series of models; names of models have no quotes."""
_KEY = b"manylabel_key_"
"""Prefix of the series of keys."""


async def write(families: Iterable[Metric], labels: Mapping[str, str]) -> bytes:
    """Return families of counters, gauges and histograms as text.

    Parameters
    ----------
    families : iterator of families, created lazily.
    labels : labels added to every series.
    """
    parts: list[str] = []
    pace = Pace()
    for family in families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        text = family.documentation.replace("\\", r"\\").replace("\n", r"\n")
        parts.append(f"# HELP {name} {text}\n# TYPE {name} {family.type}\n")
        for begin in range(0, len(family.samples), SLICE_LINES):
            parts += [_line(sample, labels) for sample in family.samples[begin : begin + SLICE_LINES]]
            await pace.rest()
    return "".join(parts).encode()


def only(text: bytes, may_see: Callable[[str], bool]) -> bytes:
    """Return the series in a text that have no model, or an accepted model; series of keys are omitted."""
    lines = text.splitlines(keepends=True)
    return b"".join(
        line
        for line in lines
        if ((found := _MODEL.search(line)) is None or may_see(found.group(1).decode())) and not line.startswith(_KEY)
    )


def _line(sample: Sample, labels: Mapping[str, str]) -> str:
    if not (sample.labels or labels):
        return f"{sample.name} {_number(sample.value)}\n"
    pairs = sorted({**sample.labels, **labels}.items())
    text = ",".join([f'{name}="{_escaped(value)}"' for name, value in pairs])
    return f"{sample.name}{{{text}}} {_number(sample.value)}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    text: str = floatToGoString(value)  # type: ignore[no-untyped-call]
    return text
