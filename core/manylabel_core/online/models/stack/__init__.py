"""Stacks: a logistic model over the margins of several experts."""
