"""Snapshots of one model: when they are taken, read, and let go."""
