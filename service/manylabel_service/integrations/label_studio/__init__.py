"""Label Studio: a model predicts the tasks of a project, and learns its annotations."""
