"""Helpers that tests of every folder import: servers in processes of their own, a proxy for Redis, and waiting."""
