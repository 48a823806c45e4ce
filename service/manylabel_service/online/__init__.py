"""Online models: deterministic replay of a log, and the handling of requests."""
