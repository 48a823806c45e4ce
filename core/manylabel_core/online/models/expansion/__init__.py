"""Kernel expansions: sums over support vectors, and budget strategies."""
