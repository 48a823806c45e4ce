"""Comparison of the states and predictions of two checkouts, bit for bit."""
