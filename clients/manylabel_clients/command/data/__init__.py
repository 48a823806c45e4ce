"""Commands that read labelled files: datasets of a server, and feeds into a model."""
