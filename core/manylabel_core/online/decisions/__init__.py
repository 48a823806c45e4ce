"""From scores to probabilities and to cuts."""
