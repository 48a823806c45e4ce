"""The spec of an online model: learner, parameters, limits."""
