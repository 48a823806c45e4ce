"""Kernel expansions: sums over support vectors, and the strategies that keep to a budget of them."""
