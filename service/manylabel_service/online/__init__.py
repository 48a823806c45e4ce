"""Online models: deterministic replay of a log, and the requests to it."""
