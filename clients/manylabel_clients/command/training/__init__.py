"""Batch training: jobs of a server, and fits on this machine."""
