"""What both kinds of models share, online and trained; it knows neither."""
