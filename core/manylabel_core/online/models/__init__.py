"""Models of online learners: their weights, scoring and learning."""
