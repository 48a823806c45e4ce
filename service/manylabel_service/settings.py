"""The server's settings: one class, read from flags, environment and file.

A flag (``--data-dir``) goes before an environment variable (``MANYLABEL_DATA_DIR``), that before a key of the
TOML file named by ``--config`` or ``MANYLABEL_CONFIG`` (``data_dir = ...``), that before the default.
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
from typing import Annotated, Any, Literal, NoReturn, get_args

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
from manylabel_service.storage.address import EMBEDDED, Address, is_redis
from manylabel_service.storage.protocol import Durability

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["json", "console"]

# Columns are int32 in the learners.
MAX_COLUMNS = 2**31 - 1


def _split(value: object) -> object:
    """Return the names in a text, or in a list of texts, where commas separate them."""
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
"""Names, separated by commas where they come from a flag or from the environment."""


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
        cli_exit_on_error=False,
    )

    config: Path | None = None
    """A TOML file with any of these settings; its keys are the names with underscores."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 for every interface."""

    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """Port to listen on; 0 takes a free one, which the line `serving` of the log then names."""

    insecure: CliImplicitFlag[bool] = False
    """Serve without any key on an address that others can reach, and let in everybody; without it such a server does
    not start before its store has a key (manylabel keys init)."""

    max_keys: PositiveInt = 1_000
    """Most keys, with those that were revoked; beyond it the oldest of these are forgotten, and while there are none,
    who makes a key is answered 507."""

    tls_cert_file: Path | None = None
    """Certificate of this server (PEM), with those between it and its authority: the server then speaks https alone.
    Read again when it changes, as is the key; connections that are there go on."""

    tls_key_file: Annotated[Path | None, Field(validate_default=True)] = None
    """Key of the certificate (PEM), not encrypted, in a file that only the server can read."""

    allowed_hosts: Names = ()
    """Names of this server that requests may come under, besides localhost and the address that it listens on (and any
    IP address where it listens on every interface); separated by commas, *.example.org for all below one, * for any.
    Others are answered 421: a web page could have made a name of its own resolve to this server."""

    trusted_proxies: Names = ()
    """Addresses, or networks as 10.0.0.0/8, of balancers in front of this server, separated by commas. Where a request
    comes from one of them, its address is what the header X-Forwarded-For says, the last that is none of theirs: for
    the audit, and for the limit of wrong keys."""

    allowed_origins: Names = ()
    """Origins of web pages of other sites that may use this server, as https://tags.example.org, separated by commas;
    * for any. Requests that a browser sends for other pages are answered 403."""

    store: Annotated[str, Field(repr=False)] = EMBEDDED
    """Where logs and snapshots live: sqlite is a file in the data directory of one process; any number of processes
    share redis://[user:password@]host[:port][/database], or rediss:// with TLS."""

    redis_password: SecretStr | None = None
    """Password for Redis, where the address has none; better given by the environment than by a flag, which others on
    the machine can see."""

    redis_ca_file: Path | None = None
    """Certificates (PEM) of the authorities trusted for rediss://, instead of those of the system."""

    redis_cert_file: Path | None = None
    """Certificate (PEM) that is shown to a Redis which asks for one, over rediss://."""

    redis_key_file: Annotated[Path | None, Field(validate_default=True)] = None
    """Key (PEM) of that certificate, not encrypted."""

    redis_timeout_seconds: Annotated[float, Field(ge=0.1, le=300)] = 5.0
    """How long to wait for a connection to Redis, and for an answer; a request that needs it is then answered 503."""

    workers: Annotated[int, Field(ge=1, le=256)] = 1
    """Processes that answer on the port, each with all models in its memory; more than one needs a store that processes
    share (redis://)."""

    data_dir: Path = Path("manylabel-data")
    """Directory of the embedded store; made if it is not there."""

    durability: Durability = "log"
    """What an update has survived when it is answered: log (a kill of the server) or fsync (loss of power too). A model
    may have its own."""

    snapshot_every_updates: PositiveInt = 50_000
    """A model is snapshotted after it has learnt this many examples since its last snapshot."""

    snapshot_every_seconds: PositiveFloat = 60.0
    """A model that has learnt anything is snapshotted after this many seconds since its last snapshot."""

    snapshots_kept: PositiveInt = 3
    """Newest snapshots kept per model, besides the older ones that what is kept of the log begins at."""

    log_keep_examples: NonNegativeInt = 100_000
    """At least so many examples that a model has learnt stay in its log, for jobs that train from them (within
    log_keep_bytes); with 0, and log_keep_hours 0 too, the log is trimmed behind the snapshots kept."""

    log_keep_hours: NonNegativeFloat = 0.0
    """At least what a model has learnt in so many hours stays in its log (within log_keep_bytes); both this and
    log_keep_examples are kept."""

    log_keep_bytes: PositiveInt = 2**28
    """Most bytes per model of what the last two keep, with the older snapshots needed for it; beyond it less is kept.
    What the newest snapshots need stays anyway."""

    max_connections: PositiveInt = 1_000
    """Most connections at a time, of each process, as far as the system lets it have descriptors; beyond it one that
    nobody uses is closed to make room, else the new one is answered 503."""

    head_seconds: PositiveFloat = 10.0
    """How long a request line and its headers may take to come, and the first of them on a new connection."""

    body_seconds: PositiveFloat = 60.0
    """How long a request body may take to come, and a second longer for every 32 KiB of it that have. A stream whose
    answers have begun, and what comes slowly because the server reads slowly, may take longer."""

    max_held_bytes: PositiveInt = 2**28
    """Most bytes of all request bodies that have come in part, or wait to be read; beyond it those of 64 KiB or more
    are answered 503. It is also the most of all answers that clients have not taken; beyond it the largest is cut
    off."""

    max_snapshot_bytes: PositiveInt = 2**35
    """Most bytes of the snapshots of all models in the store; beyond it none is taken, and who asks for one is answered
    507. Updates go on, and the log of a model without new snapshots grows."""

    max_kept_snapshots: PositiveInt = 20
    """Most snapshots per model that somebody asked for: they stay until they are deleted; beyond it: 507."""

    max_body_bytes: PositiveInt = 4 * 2**20
    """Largest request body. Parsing holds the interpreter, so this bounds a prediction's wait as well."""

    max_batch_examples: PositiveInt = 10_000
    """Most examples in one request."""

    max_answer_scores: PositiveInt = 1_000_000
    """Most scores (examples times labels) and probabilities in an answer; a batch that would have more: 413. Also most
    contributions of explanations in an answer: 422."""

    max_scores: PositiveInt = 1_000
    """Most labels that the scores of a prediction name, the best ones, where the request has no `top`."""

    stream_idle_seconds: PositiveFloat = 60.0
    """A stream, an upload or a download is ended when its client sends nothing, or takes nothing, for so long."""

    max_queue_examples: PositiveInt = 100_000
    """Most examples waiting to be learnt, per model; beyond it updates are answered 429."""

    max_queue_seconds: PositiveFloat = 2.0
    """Longest that a request waits for others, in all, from when its head was read: a body of 64 KiB or more for others
    of that size, and an update for those before it. What has waited for so long, or would have to by how fast such were
    done lately, is answered 429. Streams are held back instead."""

    max_models: PositiveInt = 1_000
    """Most models on this server."""

    preload: bool = True
    """Whether models are restored before the server is ready; otherwise each is when it is first asked for."""

    evict_idle_seconds: NonNegativeFloat = 3600.0
    """A model that nobody has asked for in so long leaves the memory until somebody does; 0 for never."""

    max_resident_bytes: PositiveInt = 2**32
    """Most memory for models; beyond it those that were asked for longest ago leave it."""

    load_wait_seconds: PositiveFloat = 10.0
    """How long a request waits for a model that is being loaded before it is answered 503."""

    position_wait_seconds: PositiveFloat = 5.0
    """How long a prediction waits for the position that it asks for before it is answered 503."""

    prediction_ttl_seconds: PositiveFloat = 86_400.0
    """How long a prediction is kept for labels that come later."""

    max_kept_predictions: PositiveInt = 100_000
    """Most predictions kept at a time, per model; beyond it they are answered 429."""

    max_kept_prediction_bytes: PositiveInt = 2**28
    """Most bytes of the predictions kept at a time, features and scores, per model; beyond it they are answered 429."""

    label_studio_urls: Names = ()
    """Addresses of the Label Studios whose annotations are read for "Start Training", separated by commas, each
    scheme://host[:port], for example http://localhost:8080. Other addresses are never requested. Empty: "Start
    Training" is off."""

    max_ranked_predictions: PositiveInt = 5_000
    """Most kept predictions without labels, the newest, that are compared where the most uncertain are asked for."""

    max_features: Annotated[int, Field(ge=1, le=MAX_COLUMNS)] = 2**24
    """Most features of a model; an index must be below it."""

    max_record_characters: PositiveInt = 100_000
    """Most characters of a record, in all its strings together; one with more is answered 422."""

    max_record_tokens: PositiveInt = 50_000
    """Most tokens of the texts of a record, each as often as it occurs; one with more is answered 422."""

    max_record_depth: Annotated[int, Field(ge=1, le=100)] = 8
    """Most objects inside one another in a record, itself included; one with more is answered 422."""

    max_record_fields: PositiveInt = 50_000
    """Maximum number of fields of a record, those of objects in it and strings of lists included; also of numbers of an
    example in a request, and of its labels. The server rejects more with 422."""

    max_labels: Annotated[int, Field(ge=1, le=MAX_COLUMNS)] = 10_000
    """Most labels of a model."""

    max_versions: PositiveInt = 100
    """Most versions of a trained model; a job for a model that has as many is refused until some are deleted."""

    max_datasets: PositiveInt = 100
    """Most data sets on this server."""

    max_dataset_bytes: PositiveInt = 2**28
    """Largest upload of a data set, and the largest that its arrays may be; reading one takes up to six times as much
    memory, in a process of its own."""

    max_dataset_features: Annotated[int, Field(ge=1, le=MAX_COLUMNS)] = 500_000
    """Most features of a data set, of all its views together."""

    max_model_bytes: PositiveInt = 2**30
    """Largest state of a model in memory; an update that would grow it further is answered 507."""

    job_runner: Literal["local", "rq"] = "local"
    """Where jobs train: in processes of this server, or on RQ workers (manylabel worker) over a redis:// store."""

    job_slots: Annotated[int, Field(ge=0, le=64)] = 1
    """Fits that train at a time in processes of this server, or of each of its workers; 0 leaves them to others."""

    job_threads: Annotated[int, Field(ge=1, le=256)] = 1
    """Threads of a fit. Part of the job from its order on: a fit that is interrupted and gone on with gives the same
    bits with the same number only."""

    job_niceness: Annotated[int, Field(ge=0, le=19)] = 19
    """How much a training process gives way to others that want the processor; at 19 predictions hardly notice it."""

    job_memory_bytes: Annotated[int, Field(ge=2**28)] = 2**32
    """Most memory of a training process, its libraries (about 200 MB) included; a fit that needs more fails."""

    job_seconds: PositiveFloat = 86_400.0
    """Longest that one fit, or one trial of a search, may train without a break; beyond it the job fails."""

    job_attempts: Annotated[int, Field(ge=1, le=100)] = 3
    """How often a fit is begun whose process, or its supervisor, dies; then the job fails."""

    job_checkpoint_work: Annotated[float, Field(ge=1, le=1e15)] = 2e9
    """Multiplications until the first checkpoint of a fit, roughly: some seconds. Later ones are further apart. A job
    keeps the number that it began with, so that a fit which is interrupted and resumed gives the same bits."""

    max_queued_jobs: PositiveInt = 100
    """Most jobs that wait or run; beyond it they are answered 429."""

    log_level: LogLevel = "info"
    """Least severe log lines that are written; debug has one for every request."""

    log_format: LogFormat = "json"
    """Log lines as JSON objects or as text for a console."""

    otel_endpoint: str | None = None
    """Address of an OpenTelemetry collector that traces of requests are sent to, by OTLP over HTTP, as
    http://localhost:4318/v1/traces; needs the extra: pip install 'manylabel[otel]'. Without it nothing is traced."""

    otel_sample_ratio: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of the requests that are traced; of one that comes with a trace (header traceparent), that says whether."""

    audit_file: str | None = None
    """File that calls which change or export anything are written to, and refused ones, a JSON line for each; several
    servers of one machine may share it; none for no audit, stdout for standard output. If not given, it is audit.jsonl
    in the data directory, and with a redis:// store there is none."""

    audit_file_bytes: PositiveInt = 2**26
    """An audit file that would get larger is put aside, with a number behind its name, and a new one is begun."""

    audit_files_kept: PositiveInt = 5
    """Audit files put aside that are kept, the newest."""

    drain_seconds: PositiveInt = 10
    """How long a stopping server lets requests in flight finish before it takes the last snapshots."""

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
        """True for a server that this machine alone can reach."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def record_limits(self) -> RecordLimits:
        """The limits of one record."""
        most = self.max_record_characters, self.max_record_tokens, self.max_record_depth, self.max_record_fields
        return RecordLimits(*most)

    @field_validator("tls_key_file", "redis_key_file")
    @classmethod
    def _go_with_a_certificate(cls, key_file: Path | None, info: ValidationInfo) -> Path | None:
        other = str(info.field_name).replace("key", "cert")
        if (key_file is None) != (info.data.get(other) is None):
            raise ValueError(f"must be given together with {other}")
        return key_file

    @field_validator("workers")
    @classmethod
    def _share_the_store(cls, workers: int, info: ValidationInfo) -> int:
        if workers > 1 and info.data.get("store") == EMBEDDED:
            raise ValueError("must be 1 with store = sqlite, which one process has for itself; use a redis:// store")
        return workers

    @field_validator("job_runner")
    @classmethod
    def _reach_the_workers(cls, runner: str, info: ValidationInfo) -> str:
        if runner == "rq" and not is_redis(info.data.get("store", EMBEDDED)):
            raise ValueError("must be local unless the store is a redis:// address, which RQ workers share")
        return runner

    @field_validator("trusted_proxies")
    @classmethod
    def _name_networks(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        for proxy in proxies:
            try:
                ip_network(proxy)
            except ValueError:
                raise ValueError(f"must be addresses, or networks as 10.0.0.0/8, not {proxy!r}") from None
        return proxies

    @field_validator("label_studio_urls")
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
                raise ValueError("must be an address, as http://localhost:4318/v1/traces")
            try:
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
"""Every setting may be an environment variable: this, and its name in capitals."""

OTHER_VARIABLES = ("MANYLABEL_URL", "MANYLABEL_API_KEY", "MANYLABEL_API_KEY_FILE")
"""Variables of the clients and of the command."""

TEST_PREFIX = "MANYLABEL_TEST_"
"""Variables of the tests begin with this."""


def _unknown_variables() -> dict[str, Any]:
    """Return the environment variables with our prefix that nothing reads; `Settings` refuses them as extra fields."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.upper().startswith(PREFIX)
        and _suffix(name) not in Settings.model_fields
        and name.upper() not in OTHER_VARIABLES
        and not name.upper().startswith(TEST_PREFIX)
    }


def _suffix(variable: str) -> str:
    """Return the name of a setting from that of its environment variable; any other name as it is."""
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
    """Settings of a ManyLabel worker. A flag goes before MANYLABEL_<NAME>, that before the --config file."""

    model_config = SettingsConfigDict(cli_prog_name="manylabel worker")


def read_settings(arguments: Sequence[str], kind: type[Settings] = Settings, program: str | None = None) -> Settings:
    """Return the settings of a server, or of a process of another kind, started with these command-line arguments.

    Errors name the `program`; None for that of the kind.

    Raises
    ------
    SystemExit
        With status 2 and a message on stderr for an unknown flag, a bad value or an unreadable file; with
        status 0 after ``--help``.
    """
    program = program or str(kind.model_config["cli_prog_name"])
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
    """Leave a program with status 2 and one line, for arguments that argparse refused with this message.

    Parameters
    ----------
    program : str
        Its name.
    message : str
        The message of argparse.
    options : iterable of str
        The options that the program has.
    """
    if message.startswith(_UNKNOWN):
        option = message.removeprefix(_UNKNOWN).split()[0].partition("=")[0]
        message = f"{option} is no option{_nearest(option, options)}"
    _refuse(program, [f"{message} (see {program} --help)"])


_SWITCH = get_args(CliImplicitFlag[bool])[1]
"""Mark of a field whose flag takes no value."""

_USAGE, _UNKNOWN = "error parsing CLI: ", "unrecognized arguments: "
"""The beginnings of messages of pydantic-settings and of argparse."""


def _nearest(name: str, names: Iterable[str], prefix: str = "") -> str:
    """Return a question for the most similar of some names; nothing if none is similar.

    With the prefix of environment variables, the question has the variable of that name.
    """
    near = get_close_matches(name, names, n=1)
    return "".join(f"; is it {prefix}{one.upper() if prefix else one}?" for one in near)


def _said(error: ErrorDetails, kind: type[Settings]) -> str:
    """Return what is wrong with a setting, in the words of this project."""
    name = str(next(iter(error["loc"]), ""))
    if error["type"] == "extra_forbidden":
        prefix = PREFIX if name.upper().startswith(PREFIX) else ""
        known = [*kind.model_fields, *(_suffix(each) for each in OTHER_VARIABLES if prefix)]
        return "is no setting" + _nearest(_suffix(name), known, prefix)
    said = error["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    said = said.partition(", unable to ")[0]
    secret = name in ("store", "redis_password")  # an address may have a password in it
    return said if secret else f"{said} (got {error['input']!r})"


def _refuse(program: str, messages: Sequence[str]) -> NoReturn:
    sys.stderr.write("".join(f"{program}: error: {message}\n" for message in messages))
    raise SystemExit(2)
