"""Models of online learners: weights, scoring of examples, and learning."""
