"""The alternation of PrML between a dictionary and coefficients, and what PrML and PrBR share."""
