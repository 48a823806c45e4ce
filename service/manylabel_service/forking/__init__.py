"""Child processes by way of a fork server: `client` in the process that wants a task done, `server` in the other."""

from manylabel_service.forking.client import CannotStart, Child, ForkServer, start

__all__ = ["CannotStart", "Child", "ForkServer", "start"]
