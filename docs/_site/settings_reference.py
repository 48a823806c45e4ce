"""The page docs/settings.md, made from the settings class: `python -m docs._site.settings_reference FILE`."""

import re
import sys
from pathlib import Path

from pydantic_core import PydanticUndefined

from manylabel_service.documented import describe
from manylabel_service.settings import Settings

HEAD = """\
# Settings

<!-- Made by `make settings-docs` from the settings class: change the docstrings there. -->

Set each option as a flag (`--data-dir`), an environment variable (`MANYLABEL_DATA_DIR`) or a key in the TOML file
named by `--config` or `MANYLABEL_CONFIG`. Flags override the environment, which overrides the file.
`manylabel serve --help` lists the same settings. A size in bytes has no unit: write 8388608 for 8 MiB.

```toml
data_dir = "/var/lib/manylabel"
durability = "fsync"
snapshot_retention_count = 5
```

The server does not start if a flag, a key of the file or a variable `MANYLABEL_...` is unknown, except those of the
command and the tests. In Kubernetes, set `enableServiceLinks: false` in the pod: for a Service named `manylabel`,
Kubernetes sets variables such as `MANYLABEL_SERVICE_HOST`.
"""

GROUPS = {
    "Jobs and datasets": r"job_|max_dataset",
    "Logs, traces, audit": r"log_level|log_format|otel_|audit_",
    "Storage": r"store$|data_dir|redis_|durability|snapshot_|history_|archive|max_snapshot_bytes",
    "Network and access": r"config|host|port$|insecure|allowed_|trusted_|tls_|workers|max_connections|max_body|max_sc",
    "Models": "",
}
"""Titles of the tables, and the beginnings of the names of their settings; the first that matches counts."""

ORDER = ("Network and access", "Storage", "Models", "Jobs and datasets", "Logs, traces, audit")
"""Titles of the tables in the order of the page."""

UNITS = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10}


def page() -> str:
    """Return the page."""
    describe(Settings)
    tables: dict[str, list[str]] = {title: [] for title in ORDER}
    for name, field in Settings.model_fields.items():
        title = next(title for title, names in GROUPS.items() if re.match(names, name))
        tables[title].append(f"| `{name}` | {default_of(name)} | {_cell(field.description or '')} |")
    head = "| setting | default | meaning |\n|---|---|---|\n"
    return HEAD + "".join(f"\n## {title}\n\n{head}" + "\n".join(rows) + "\n" for title, rows in tables.items())


def default_of(name: str) -> str:
    """Return the default of a setting, or the value of a limit, with its unit and separators; nothing for none."""
    field = Settings.model_fields.get(name)
    default = getattr(Settings.limits, name) if field is None else field.default
    if default is PydanticUndefined or default is None or default == ():
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    if name == "port" or not isinstance(default, int | float):
        return str(default)
    if name.endswith("_bytes"):
        unit, size = next((unit, size) for unit, size in UNITS.items() if default % size == 0)
        return f"{default // size:,} {unit}"
    if default >= 1e9:
        return f"{default:.0e}".replace("+0", "")
    number = "0" if default == 0 else f"{default:,}".removesuffix(".0")
    return f"{number} s" if name.endswith("_seconds") else number


def _cell(text: str) -> str:
    """Return a docstring in one line, with the names of settings as code."""
    line = " ".join(text.split()).replace("|", "\\|").replace("*", "\\*")
    names = "|".join(sorted((name for name in Settings.model_fields if "_" in name), key=len, reverse=True))
    return re.sub(rf"(?<![`\w-])({names})(?![\w`])", r"`\1`", line)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
