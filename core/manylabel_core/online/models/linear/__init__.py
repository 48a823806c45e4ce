"""Linear models: a weight for each feature and label, and up to two experts of different steps."""
