"""Programs between a ManyLabel server and other products: one thin translation per file."""
