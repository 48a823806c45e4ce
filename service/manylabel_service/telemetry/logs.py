"""Log lines in one format for this program and its libraries, on standard error."""

import logging
import sys
from typing import Any

import structlog

from manylabel_service.redaction import redacted
from manylabel_service.settings import Settings

_PROCESSORS: tuple[structlog.typing.Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)

# Values of variables are omitted, because they may contain data of clients.
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def configure_logging(settings: Settings, **always: object) -> None:
    """Write log lines of this program and of its libraries to standard error, in one format.

    Parameters
    ----------
    settings : settings of the server.
    **always : additional fields of every line.
    """
    processors = (*_PROCESSORS, _adding(always)) if always else _PROCESSORS
    if settings.log_format == "json":
        last: tuple[structlog.typing.Processor, ...] = (_TRACEBACKS, structlog.processors.JSONRenderer())
    else:
        plain = structlog.dev.plain_traceback
        last = (structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain),)
    last = (*last, _redacting)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=processors,
            processors=(structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last),
        )
    )
    logging.basicConfig(handlers=[handler], level=settings.log_level.upper(), force=True)
    logging.getLogger("uvicorn").setLevel(max(logging.WARNING, logging.root.level))
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # invalid bodies are the client's responsibility
    for name in ("httpx2", "httpcore2"):  # they would contain addresses of webhooks, and headers with secrets
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.root.level))
    structlog.configure(
        processors=[*processors, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(settings.log_level),
        logger_factory=structlog.stdlib.LoggerFactory(),
    )


def _redacting(_: object, __: str, line: Any) -> str:
    """Remove keys from a line, because a client may have put one into a URL."""
    return redacted(line)


def _adding(always: dict[str, object]) -> structlog.typing.Processor:
    def add(_: object, __: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
        line.update(always)
        return line

    return add
