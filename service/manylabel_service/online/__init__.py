"""Models that learn from a stream: a fold over a log, as requests see it."""
