"""The state of a model as a pure function of its spec and its log; no I/O."""
