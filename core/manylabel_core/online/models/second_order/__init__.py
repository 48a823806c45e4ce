"""Second-order logistic regression."""
