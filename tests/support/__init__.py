"""Helpers for the tests of every folder: servers in separate processes, a proxy for Redis, and waiting."""
