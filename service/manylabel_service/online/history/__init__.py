"""History of a model: segments of its log, which remain when the log is trimmed, and states to replay them from."""
