"""Alternation of PrML between a dictionary and coefficients, and code shared with PrBR."""
