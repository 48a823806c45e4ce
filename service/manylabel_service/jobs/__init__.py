"""Training jobs: from the request to a version of a model."""
