"""Installations of the wheel: size and import time of each extra."""
