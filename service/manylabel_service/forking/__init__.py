"""Child processes started by a fork server: `client` in the requesting process, `server` in the other."""

from manylabel_service.forking.client import CannotStart, Child, ForkServer, start

__all__ = ["CannotStart", "Child", "ForkServer", "start"]
