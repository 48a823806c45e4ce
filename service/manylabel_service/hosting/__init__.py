"""The hosting of models: what both kinds share, online and trained; it knows neither."""
