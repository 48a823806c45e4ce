"""Calibration: probabilities of scores, and the decision threshold of each label."""
