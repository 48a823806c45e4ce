"""The server's settings: one class, read from flags, environment and file.

A flag (``--data-dir``) goes before an environment variable (``MANYLABEL_DATA_DIR``), that before a key of the
TOML file named by ``--config`` or ``MANYLABEL_CONFIG`` (``data_dir = ...``), that before the default.
"""

import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import Field, PositiveFloat, PositiveInt, ValidationError
from pydantic_settings import (
    BaseSettings,
    CliApp,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

Durability = Literal["memory", "log", "fsync"]
Store = Literal["sqlite"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["json", "console"]

# Columns are int32 in the learners.
MAX_COLUMNS = 2**31 - 1


class Settings(BaseSettings):
    """Settings of a ManyLabel server. A flag goes before MANYLABEL_<NAME>, that before the --config file."""

    model_config = SettingsConfigDict(
        env_prefix="MANYLABEL_",
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        cli_prog_name="manylabel serve",
        cli_kebab_case=True,
        cli_hide_none_type=True,
    )

    config: Path | None = None
    """A TOML file with any of these settings; its keys are the names with underscores."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 for every interface."""

    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """Port to listen on; 0 takes a free one, which the line `serving` of the log then names."""

    store: Store = "sqlite"
    """Where logs and snapshots live: sqlite is a file in the data directory."""

    data_dir: Path = Path("manylabel-data")
    """Directory of the embedded store; made if it is not there."""

    durability: Durability = "log"
    """What an update has survived when it is answered: memory (nothing), log (a kill of the server), fsync (a
    loss of power too). A model may have its own."""

    snapshot_every_updates: PositiveInt = 50_000
    """A model is snapshotted after this many updates since its last snapshot."""

    snapshot_every_seconds: PositiveFloat = 60.0
    """A model that has learnt anything is snapshotted after this many seconds since its last snapshot."""

    snapshots_kept: PositiveInt = 3
    """Snapshots kept per model; the log is trimmed behind the oldest."""

    max_body_bytes: PositiveInt = 4 * 2**20
    """Largest request body. Parsing holds the interpreter, so this bounds a prediction's wait as well."""

    max_batch_examples: PositiveInt = 10_000
    """Most examples in one request."""

    max_answer_scores: PositiveInt = 1_000_000
    """Most scores (examples times labels) in one answer; a batch that would have more is answered 413."""

    max_queue_examples: PositiveInt = 100_000
    """Most examples waiting to be learnt, per model; beyond it updates are answered 429."""

    max_queue_bytes: PositiveInt = 2**28
    """Most bytes of them."""

    max_models: PositiveInt = 1_000
    """Most models on this server."""

    max_features: Annotated[int, Field(ge=1, le=MAX_COLUMNS)] = 2**24
    """Most features of a model; an index must be below it."""

    max_labels: Annotated[int, Field(ge=1, le=MAX_COLUMNS)] = 10_000
    """Most labels of a model."""

    max_model_bytes: PositiveInt = 2**30
    """Largest state of a model in memory; an update that would grow it further is answered 507."""

    log_level: LogLevel = "info"
    """Least severe log lines that are written; debug has one for every request."""

    log_format: LogFormat = "json"
    """Log lines as JSON objects or as text for a console."""

    drain_seconds: PositiveInt = 10
    """How long a stopping server lets requests in flight finish before it takes the last snapshots."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments and flags (which pydantic-settings puts first), environment, file."""
        return init_settings, env_settings, _ConfigFile(settings_cls, init_kwargs={})


class _ConfigFile(InitSettingsSource):
    """The TOML file that an earlier source names in `config`."""

    def __call__(self) -> dict[str, Any]:
        path = self.current_state.get("config")
        if path is None:
            return {}
        try:
            return tomllib.loads(Path(path).read_text())
        except (OSError, ValueError) as error:
            raise SettingsError(f"config: cannot read {path}: {error}") from error


def read_settings(arguments: Sequence[str]) -> Settings:
    """The settings of a server started with these command-line arguments.

    Raises
    ------
    SystemExit
        With status 2 and a message on stderr for an unknown flag, a bad value or an unreadable file; with
        status 0 after ``--help``.
    """
    try:
        return CliApp.run(Settings, cli_args=list(arguments))
    except SettingsError as error:
        _refuse([str(error)])
    except ValidationError as error:
        _refuse([f"{'.'.join(map(str, e['loc']))}: {e['msg']} (got {e['input']!r})" for e in error.errors()])


def _refuse(messages: Sequence[str]) -> NoReturn:
    sys.stderr.write("".join(f"manylabel serve: error: {message}\n" for message in messages))
    raise SystemExit(2)
