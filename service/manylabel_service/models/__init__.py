"""Models of this process, of both kinds: loading, listing and eviction."""
