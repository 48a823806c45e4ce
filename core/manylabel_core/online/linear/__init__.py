"""Linear models: a table of weights, and how it learns."""
