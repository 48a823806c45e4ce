"""Taking, reading and deleting the snapshots of one model."""
