"""Supervisor of one leased task: lease, child process, files in and out."""
