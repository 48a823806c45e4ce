"""Path of an update: check, queue, append to the log, apply, respond."""
