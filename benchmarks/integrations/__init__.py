"""Programs that people already run, beside ManyLabel or connected to it."""
