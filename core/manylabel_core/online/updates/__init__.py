"""Updates of one example, seen from its scores alone: how far each label's weights move along it."""
