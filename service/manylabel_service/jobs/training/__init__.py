"""Training process of a task."""
