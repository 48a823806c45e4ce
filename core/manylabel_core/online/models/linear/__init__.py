"""Linear models: a weight for each feature and label."""
