"""Commands that read labelled files: data sets of a server, and feeds into a model."""
