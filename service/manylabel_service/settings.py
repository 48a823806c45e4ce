"""The server's settings: one class, read from flags, environment and file.

A flag (``--data-dir``) takes precedence over an environment variable (``MANYLABEL_DATA_DIR``). Both take precedence
over the TOML file named by ``--config`` or ``MANYLABEL_CONFIG`` (``data_dir = ...``), and all over the default.
"""

import os
import re
import sys
import tomllib
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib import import_module
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NoReturn, get_args

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    CliApp,
    CliImplicitFlag,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from manylabel_core.records import RecordLimits
from manylabel_service.documented import describe
from manylabel_service.limits import Limits
from manylabel_service.storage.address import EMBEDDED, Address, check_place, is_redis
from manylabel_service.storage.protocol import Durability

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["json", "console"]

# Columns are int32 in the learners.
MAX_COLUMNS = 2**31 - 1


def _split(value: object) -> object:
    """Split a text, or the texts of a list, at commas into names."""
    if isinstance(value, str):
        return [name for part in value.split(",") if (name := part.strip())]
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return _split(",".join(value))
    return value


_ORIGIN = re.compile(
    r"(https?)://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?(?=[/?#]|\Z)", re.ASCII | re.IGNORECASE
)
_PORTS = {"http": 80, "https": 443}


def origin_of(address: str) -> str | None:
    """Return scheme://host:port of an HTTP address without its path; None for any other text.

    An address with a user name or a password has no origin.
    """
    found = _ORIGIN.match(address)
    if found is None:
        return None
    scheme, host, port = found[1].lower(), found[2].lower(), found[3]
    number = _PORTS[scheme] if port is None else int(port)
    if host.startswith("[") or host.replace(".", "").isdigit():
        try:
            ip_address(host.strip("[]"))
        except ValueError:
            return None
    return f"{scheme}://{host}:{number}" if 0 < number < 2**16 else None


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
"""Names; a flag or an environment variable separates them by commas."""


class Settings(BaseSettings):
    """Settings of a ManyLabel server. A flag overrides MANYLABEL_<NAME>, which overrides the --config file."""

    model_config = SettingsConfigDict(
        env_prefix="MANYLABEL_",
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        cli_prog_name="manylabel serve",
        cli_kebab_case=True,
        cli_hide_none_type=True,
        cli_exit_on_error=False,
    )

    limits: ClassVar[Limits] = Limits()

    config: Path | None = None
    """Path of a TOML file with any of these settings; its keys are the names with underscores."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 for every interface."""

    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """Port to listen on; 0 takes a free port, which the log line `serving` reports."""

    insecure: CliImplicitFlag[bool] = False
    """Serve without keys on an address that other machines can reach, and give every client full access. Without this
    flag, such a server does not start before its store has a key (manylabel keys init)."""

    tls_cert_file: Path | None = None
    """Path of the certificate chain of this server (PEM): its certificate and the intermediate ones. The server then
    accepts only https. The certificate and its key are reloaded when the files change; open connections continue."""

    tls_key_file: Annotated[Path | None, Field(validate_default=True)] = None
    """Path of the key of the certificate (PEM), not encrypted, in a file that only the server can read."""

    allowed_hosts: Names = ()
    """Host names that requests may use for this server, separated by commas: *.example.org for all names below a
    domain, * for any. localhost and the listening address are always allowed. If the server listens on every interface,
    any IP address is allowed. The server rejects other hosts with 421, to prevent DNS rebinding."""

    trusted_proxies: Names = ()
    """Addresses or networks, such as 10.0.0.0/8, of the load balancers in front of this server, separated by commas.
    For a request from one of them, the client address is the last address in the X-Forwarded-For header that is not in
    this list. The audit log uses this address."""

    keep_alive_seconds: Annotated[int, Field(ge=1, le=3_600)] = 75
    """Seconds after which a connection without a request is closed. A load balancer that reuses connections must close
    them earlier, or it may send a request on a connection that this server is closing, and return 502."""

    allowed_origins: Names = ()
    """Origins of web pages of other sites that may use this server, such as https://tags.example.org, separated by
    commas; * for any. Requests from pages of any other origin get 403."""

    store: Annotated[str, Field(repr=False)] = EMBEDDED
    """Store of logs and snapshots: sqlite is a file in the data directory of one process; any number of processes share
    redis://[user:password@]host[:port][/database], or rediss:// with TLS."""

    redis_password: SecretStr | None = None
    """Password for Redis, if the address has none. Set it in the environment, not by a flag, which other users of the
    machine can see."""

    redis_ca_file: Path | None = None
    """Path of the certificates (PEM) of the authorities trusted for rediss://, instead of those of the system."""

    redis_cert_file: Path | None = None
    """Path of the client certificate (PEM) for a Redis that requires one, over rediss://."""

    redis_key_file: Annotated[Path | None, Field(validate_default=True)] = None
    """Path of the key (PEM) of the client certificate, not encrypted."""

    redis_timeout_seconds: Annotated[float, Field(ge=0.1, le=300)] = 5.0
    """Timeout in seconds for connecting to Redis, and for a response; a request that needs Redis then fails with
    503."""

    blobs: str | None = None
    """Address of the place of snapshots, histories, datasets, checkpoints and versions, file:///DIRECTORY or
    s3://BUCKET/PREFIX. All servers and workers of a store must have the same address. Default: in the store. For a
    store that has data, first run `manylabel move-blobs`."""

    workers: Annotated[int, Field(ge=1, le=256)] = 1
    """Number of server processes that share the port, each with all models in its memory; more than one needs a store
    that processes share (redis://)."""

    data_dir: Path = Path("manylabel-data")
    """Directory of the embedded store; created if it does not exist."""

    durability: Durability = "log"
    """Durability of an acknowledged update: log survives a crash of the server, fsync also a loss of power."""

    snapshot_every_updates: PositiveInt = 50_000
    """Number of examples learnt since the last snapshot of a model that triggers the next one."""

    snapshot_every_seconds: PositiveFloat = 60.0
    """Seconds since the last snapshot of a model that trigger the next one, if the model has learnt anything."""

    snapshot_retention_count: PositiveInt = 3
    """Number of recent snapshots retained per model. The log before them is moved into the history of the model."""

    history_bytes: NonNegativeInt = 2**28
    """Maximum compressed bytes of the history of a model: its log, kept for training jobs, exports, and rollbacks and
    forks to any position or time. Above it, the oldest part is dropped; 0 keeps no history."""

    history_days: NonNegativeFloat = 0.0
    """Maximum age in days of the examples in the history of a model; 0 for no maximum. Examples that the newest
    snapshots still need may be older."""

    archive: str | None = None
    """Address of the archive, file:///DIRECTORY or s3://BUCKET/PREFIX: a continuous backup for `manylabel restore`."""

    archive_seconds: PositiveFloat = 10.0
    """Seconds between two passes of archiving; the loss of a disk costs at most the updates of this interval."""

    archive_days: NonNegativeFloat = 30.0
    """Maximum age in days of the states of a store that the archive can restore, and of the deleted data that it
    retains; 0 for no maximum. Logs of existing models are retained completely, regardless of history_days."""

    max_connections: PositiveInt = 1_000
    """Maximum concurrent connections per process, also capped by the open-file limit. At the limit an idle connection
    is closed; if none is idle, the new one gets 503."""

    max_snapshot_bytes: PositiveInt = 2**35
    """Maximum bytes of the snapshots of all models in the store. Above it, no snapshot is taken, and requests for one
    get 507; updates continue, and the log of a model without new snapshots grows. Forgetting and promotion copy the
    snapshots of a model, and fail if the copies would exceed this maximum."""

    max_body_bytes: PositiveInt = 4 * 2**20
    """Maximum bytes of a request body. Parsing a body blocks all other requests, so this also bounds the latency of
    predictions."""

    max_scores: PositiveInt = 1_000
    """Maximum number of labels in the scores of a prediction if the request has no `top`; the highest scores are
    returned."""

    max_queue_wait_seconds: PositiveFloat = 2.0
    """Maximum total seconds that a request may wait in queues after its headers were read. A body of 64 KiB or more
    waits to be parsed, and an update to be learnt. A request that has waited for this time, or is expected to, gets
    429; streams get backpressure instead."""

    max_models: Annotated[int, Field(ge=1, le=100_000)] = 100_000
    """Maximum number of models on this server."""

    preload: bool = True
    """Whether a server restores the recently used models in the background after its start; otherwise the first request
    for a model restores it."""

    metrics_models: NonNegativeInt = 200
    """Maximum number of models with separate series in `/metrics`, per server process; the counts of other models are
    summed."""

    max_resident_bytes: PositiveInt = 2**32
    """Maximum bytes of memory for models; above it, the least recently used are evicted."""

    prediction_ttl_seconds: PositiveFloat = 86_400.0
    """Seconds for which a stored prediction waits for delayed labels."""

    max_stored_predictions: PositiveInt = 100_000
    """Maximum number of stored predictions per model; at the limit, the server rejects new ones with 429."""

    webhook_urls: Names = ()
    """Addresses to which webhooks may send events, separated by commas, each scheme://host[:port], for example
    https://hooks.example.org. The server rejects webhooks with other addresses. If empty, webhooks are off."""

    webhook_networks: Names = ()
    """Addresses or networks that are not public, such as 172.18.0.0/16, to which the host names in webhook_urls may
    resolve, separated by commas. An IP address in webhook_urls, and localhost, need no entry here."""

    max_features: Annotated[int, Field(ge=1, le=MAX_COLUMNS)] = 2**24
    """Maximum number of features of a model; an index must be below it."""

    max_record_characters: PositiveInt = 100_000
    """Maximum total number of characters of the strings of a record, and twice the maximum number of tokens of its
    texts; the server rejects more with 422."""

    max_labels: Annotated[int, Field(ge=1, le=MAX_COLUMNS)] = 10_000
    """Maximum number of labels of a model."""

    max_dataset_bytes: PositiveInt = 2**28
    """Maximum bytes of an uploaded dataset, and of its arrays; parsing takes up to six times as much memory, in a
    separate process."""

    max_dataset_features: Annotated[int, Field(ge=1, le=MAX_COLUMNS)] = 500_000
    """Maximum total number of features of all views of a dataset."""

    max_model_bytes: PositiveInt = 2**30
    """Maximum bytes of a model in memory; an update that would exceed it gets 507."""

    job_runner: Literal["local", "rq"] = "local"
    """Runner of jobs: local for processes of this server, rq for training workers (manylabel worker) over a redis://
    store."""

    job_slots: Annotated[int, Field(ge=0, le=64)] = 1
    """Number of concurrent training processes per server process; 0 for none in this server."""

    job_threads: Annotated[int, Field(ge=1, le=256)] = 1
    """Number of threads of a fit. A job keeps the number with which it was submitted, because a resumed fit has the
    same result, bit for bit, only with the same number."""

    job_memory_bytes: Annotated[int, Field(ge=2**28)] = 2**32
    """Maximum bytes of memory of a training process, including its libraries (about 200 MB); a fit that needs more
    fails."""

    job_timeout_seconds: PositiveFloat = 86_400.0
    """Maximum seconds that one fit, or one trial of a search, may train without interruption; then the job fails."""

    log_level: LogLevel = "info"
    """Minimum severity of the log lines that are written; debug includes one for every request."""

    log_format: LogFormat = "json"
    """Format of log lines: json, or console for text."""

    otel_endpoint: str | None = None
    """Address of an OpenTelemetry collector that receives traces of requests by OTLP over HTTP, such as
    http://localhost:4318/v1/traces; needs the extra: pip install 'manylabel[otel]'. Without an address, tracing is
    off."""

    audit_file: str | None = None
    """File of the audit log: a JSON line for each call that changes or exports anything, and for each refused call.
    Servers on one machine may share it. none disables the audit log, stdout writes it to standard output. Default:
    audit.jsonl in the data directory; with a redis:// store, none."""

    @property
    def audit_place(self) -> Path | Literal["stdout"] | None:
        """The audit file, or standard output; None for no audit."""
        if self.audit_file is None:
            return self.data_dir / "audit.jsonl" if self.store == EMBEDDED else None
        if self.audit_file == "stdout":
            return "stdout"
        return None if self.audit_file == "none" else Path(self.audit_file)

    @property
    def is_local(self) -> bool:
        """True if only this machine can reach the server."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def record_limits(self) -> RecordLimits:
        """Limits of one record."""
        characters = self.max_record_characters
        return RecordLimits(characters, characters // 2, self.limits.max_record_depth, self.limits.max_record_fields)

    @field_validator("tls_key_file", "redis_key_file")
    @classmethod
    def _go_with_a_certificate(cls, key_file: Path | None, info: ValidationInfo) -> Path | None:
        other = str(info.field_name).replace("key", "cert")
        if (key_file is None) != (info.data.get(other) is None):
            raise ValueError(f"must be set together with {other}")
        return key_file

    @field_validator("workers")
    @classmethod
    def _share_the_store(cls, workers: int, info: ValidationInfo) -> int:
        if workers > 1 and info.data.get("store") == EMBEDDED:
            raise ValueError("must be 1 with store = sqlite, which serves one process; use a redis:// store")
        return workers

    @field_validator("archive", "blobs")
    @classmethod
    def _is_a_place(cls, address: str | None, info: ValidationInfo) -> str | None:
        if address is not None:
            check_place(address, "the archive" if info.field_name == "archive" else "the place of blobs")
        return address

    @field_validator("job_runner")
    @classmethod
    def _reach_the_workers(cls, runner: str, info: ValidationInfo) -> str:
        if runner == "rq" and not is_redis(info.data.get("store", EMBEDDED)):
            raise ValueError("must be local unless the store is a redis:// address, which RQ workers can share")
        return runner

    @field_validator("trusted_proxies", "webhook_networks")
    @classmethod
    def _name_networks(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        for proxy in proxies:
            try:
                ip_network(proxy)
            except ValueError:
                raise ValueError(f"must be addresses, or networks such as 10.0.0.0/8, not {proxy!r}") from None
        return proxies

    @field_validator("webhook_urls")
    @classmethod
    def _name_origins(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        origins = [origin_of(url) if _ORIGIN.fullmatch(url) else None for url in urls]
        for url, origin in zip(urls, origins, strict=True):
            if origin is None:
                raise ValueError(f"must be scheme://host[:port], for example http://localhost:8080, not {url!r}")
        return tuple(origin for origin in origins if origin is not None)

    @field_validator("otel_endpoint")
    @classmethod
    def _have_the_extra(cls, endpoint: str | None) -> str | None:
        if endpoint is not None:
            if not endpoint.startswith(("http://", "https://")):
                raise ValueError("must be an address, such as http://localhost:4318/v1/traces")
            try:
                import_module("opentelemetry.instrumentation.asgi")
                import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
            except ImportError:
                raise ValueError("needs the extra otel: pip install 'manylabel[otel]'") from None
        return endpoint

    @field_validator("store")
    @classmethod
    def _name_a_store(cls, store: str) -> str:
        if is_redis(store):
            Address.parse(store)
        elif store != EMBEDDED:
            raise ValueError("must be sqlite or the address of a Redis, redis://host:port/database")
        return store

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: arguments and flags (which pydantic-settings puts first), environment, file."""
        unknown = InitSettingsSource(settings_cls, init_kwargs=_unknown_variables())
        return init_settings, env_settings, unknown, _ConfigFile(settings_cls, init_kwargs={})


PREFIX = "MANYLABEL_"
"""Prefix of the environment variables of the settings, before the name in capitals."""

OTHER_VARIABLES = ("MANYLABEL_URL", "MANYLABEL_API_KEY", "MANYLABEL_API_KEY_FILE", "MANYLABEL_WEBHOOK_SECRET")
"""Variables of the clients and of the command."""

TEST_PREFIX = "MANYLABEL_TEST_"
"""Prefix of the environment variables of the tests."""


def _unknown_variables() -> dict[str, Any]:
    """Return the unknown environment variables with the prefix of the settings; `Settings` rejects them as extra
    fields."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.upper().startswith(PREFIX)
        and _suffix(name) not in Settings.model_fields
        and name.upper() not in OTHER_VARIABLES
        and not name.upper().startswith(TEST_PREFIX)
    }


def _suffix(variable: str) -> str:
    """Return the name of the setting for an environment variable; return other names unchanged."""
    return variable.lower().removeprefix(PREFIX.lower()) if variable.upper().startswith(PREFIX) else variable


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


class WorkerSettings(Settings):
    """Settings of a ManyLabel worker. A flag overrides MANYLABEL_<NAME>, which overrides the --config file."""

    model_config = SettingsConfigDict(cli_prog_name="manylabel worker")


def read_settings(arguments: Sequence[str], kind: type[Settings] = Settings, program: str | None = None) -> Settings:
    """Return the settings of a server, or of a process of another `kind`, from these command-line arguments.

    Raises SystemExit. Errors name the `program`; None means the program of this kind.
    """
    program = program or str(kind.model_config["cli_prog_name"])
    if not {"-h", "--help"}.isdisjoint(arguments):
        describe(kind)
    try:
        return CliApp.run(kind, cli_args=list(arguments))
    except SettingsError as error:
        message = str(error)
        if message.startswith(_USAGE):
            refuse_usage(program, message.removeprefix(_USAGE), option_names())
        _refuse(program, [message])
    except ValidationError as error:
        _refuse(program, [f"{'.'.join(map(str, e['loc']))}: {_said(e, kind)}" for e in error.errors()])


def option_names() -> dict[str, bool]:
    """Return the flags of a server, and whether each takes a value."""
    names: dict[str, bool] = {}
    for name, field in Settings.model_fields.items():
        flag, is_switch = name.replace("_", "-"), _SWITCH in field.metadata
        names[f"--{flag}"] = not is_switch
        if is_switch:
            names[f"--no-{flag}"] = False
    return names


def refuse_usage(program: str, message: str, options: Iterable[str]) -> NoReturn:
    """Exit with status 2 and an error of one line, for arguments that argparse rejected with a message.

    Parameters
    ----------
    program : str
        Name of the program.
    message : str
        The message of argparse.
    options : iterable of str
        Names of the options of the program.
    """
    if message.startswith(_UNKNOWN):
        option = message.removeprefix(_UNKNOWN).split()[0].partition("=")[0]
        message = f"unknown option {option}{_nearest(option, options)}"
    _refuse(program, [f"{message} (see {program} --help)"])


_SWITCH = get_args(CliImplicitFlag[bool])[1]
"""Marker of a field whose flag takes no value."""

_USAGE, _UNKNOWN = "error parsing CLI: ", "unrecognized arguments: "
"""Prefixes of error messages of pydantic-settings and of argparse."""


def _nearest(name: str, names: Iterable[str], prefix: str = "") -> str:
    """Return the text of a question with the name that is most similar; an empty text if no name is similar.

    With the prefix of environment variables, the question names the environment variable.
    """
    near = get_close_matches(name, names, n=1)
    return "".join(f"; did you mean {prefix}{one.upper() if prefix else one}?" for one in near)


def _said(error: ErrorDetails, kind: type[Settings]) -> str:
    """Return the error message for a setting, in the wording of this project."""
    name = str(next(iter(error["loc"]), ""))
    if error["type"] == "extra_forbidden":
        prefix = PREFIX if name.upper().startswith(PREFIX) else ""
        known = [*kind.model_fields, *(_suffix(each) for each in OTHER_VARIABLES if prefix)]
        return "unknown setting" + _nearest(_suffix(name), known, prefix)
    said = error["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    said = said.partition(", unable to ")[0]
    secret = name in ("store", "redis_password")  # an address may contain a password
    return said if secret else f"{said} (got {error['input']!r})"


def _refuse(program: str, messages: Sequence[str]) -> NoReturn:
    sys.stderr.write("".join(f"{program}: error: {message}\n" for message in messages))
    raise SystemExit(2)
