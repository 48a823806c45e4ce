"""Calibration: from scores to probabilities, and to the threshold at which each label is decided."""
