"""Updates of one example from its scores: the step of each label along the example."""
