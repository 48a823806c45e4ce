"""Loads all that a server loads at its start: multiprocessing's fork server imports this once (forked_server.py)."""

import gc

import manylabel_service.server.process  # noqa: F401  and with it the application
from manylabel_service.online.warmup import warm_up

warm_up()
# What is loaded stays: no server that is forked walks it at its start, nor gets a copy of its memory by doing so.
gc.collect()
gc.freeze()
