"""Alternation of LSA-MML over bases, weights and a common representation of several views."""
