"""HTTP client: `resources` are the resources of a server, `transport` sends requests; `client` has both clients."""
