"""Online models: deterministic replay of logs, and handling of requests."""
