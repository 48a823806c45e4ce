"""Programs between a ManyLabel server and other products, each a thin translation in a file."""
