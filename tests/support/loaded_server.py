"""Loads all that a server and its children load: multiprocessing's fork server imports this once (forked_server.py)."""

import gc
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a process that forks has one thread

import manylabel_service.server.process  # noqa: F401  and with it the application
from manylabel_service.forking.server import preload
from manylabel_service.hosting.kernels import SERVED, load

preload()
load(SERVED)
# Loaded objects stay: a forked server does not walk them when it starts, and so copies none of their memory.
gc.collect()
gc.freeze()
