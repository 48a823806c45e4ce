"""Installations of the wheel: what each extra weighs, and how long its imports take."""
