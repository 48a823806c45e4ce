"""The history of a model: segments of its log, which stay when the log is trimmed, and states to replay them from."""
