"""HTTP layer independent of models: bodies, responses, errors, streams."""
