"""Scaling of features as a part of a learner."""
