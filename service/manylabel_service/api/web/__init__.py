"""HTTP plumbing without any notion of a model: bodies, answers, errors, streams."""
