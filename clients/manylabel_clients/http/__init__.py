"""The HTTP client: `resources` are what a server has, `transport` carries requests to it; `client` has both clients."""
