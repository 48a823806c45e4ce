"""Hosted models: what they are, and how the log becomes their state."""
