"""Commands about a server itself: start it, a training worker or the demo; its keys; its store moved to another."""
