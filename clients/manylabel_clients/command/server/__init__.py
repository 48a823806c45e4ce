"""Commands for the operator of a server: start it, a training worker or the demo; keys; export and import of its
store."""
