"""Jobs: training that takes longer than a request, from its order to a version of a model."""
