"""The specification of jobs: what a client may ask for, and is told."""
