"""Programs that connect a ManyLabel server to other products."""
