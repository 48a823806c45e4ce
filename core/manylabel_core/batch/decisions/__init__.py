"""Decision thresholds that optimise a metric, and probabilities, from out-of-fold scores."""
