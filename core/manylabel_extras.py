"""Extras of the distribution: the packages that its parts need, and the error for a missing one.

A separate module, because a part must be able to raise this error when it cannot be imported.
"""

from collections.abc import Mapping
from importlib.util import find_spec

_CORE = ("numpy", "scipy", "numba", "sklearn")
_SERVER = (
    *(
        "fastapi",
        "starlette",
        "uvicorn",
        "uvloop",
        "httptools",
        "fastapi_offline",
        "python_multipart",
        "pydantic",
        "jiter",
    ),
    *("pydantic_settings", "mmh3", "msgpack", "redis", "rq", "structlog", "prometheus_client", "standardwebhooks"),
)

EXTRAS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "core": ("the core (learners, trainers, readers of files)", _CORE),
    "river": ("river and the core", (*_CORE, "river")),
    "server": ("the server", (*_CORE, *_SERVER)),
    "onnx": ("onnx and the core", (*_CORE, "onnx")),
    "mcp": ("the SDK of the Model Context Protocol", ("mcp",)),
    "topics": (
        "the clients of Kafka and Prometheus, and the core",
        (*_CORE, "confluent_kafka", "prometheus_client"),
    ),
    "plots": ("matplotlib", ("numpy", "matplotlib")),
    "all": ("the server and river", (*_CORE, *_SERVER, "river", "matplotlib")),
}
"""Display name of each extra, and the modules that it installs."""


class MissingExtra(ImportError):
    """A missing extra: the import or call needs packages that are not installed.

    Attributes
    ----------
    extra : str
        The extra with these packages, or several in pip's notation: ``server,river``.
    """

    def __init__(self, user: str, extra: str) -> None:
        names = " and ".join(EXTRAS[one][0] for one in extra.split(","))
        super().__init__(f"{user} needs {names}: pip install 'manylabel[{extra}]'", name=user)
        self.extra = extra


def missing_modules(extra: str) -> list[str]:
    """Return the modules of an extra that are not installed."""
    return [module for module in EXTRAS[extra][1] if not _is_there(module)]


def require(user: str, extra: str) -> None:
    """Raise `MissingExtra` if `user`, a module or a command, lacks packages; imports nothing.

    Parameters
    ----------
    user : str
        Name, in the message, of the part that needs the extra.
    extra : str
        One of `EXTRAS`, or several, separated by commas.
    """
    if any(map(missing_modules, extra.split(","))):
        raise MissingExtra(user, extra)


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ValueError:  # raised for a loaded module without a spec
        return True
    except ImportError:  # an import hook blocks the module
        return False
