"""HTTP plumbing without any notion of a model: bodies, responses, errors, streams."""
