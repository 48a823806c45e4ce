"""Snapshots of one model: taking, reading and deleting them."""
