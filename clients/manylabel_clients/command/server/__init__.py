"""Commands that start something: the server, a training worker, the demo."""
