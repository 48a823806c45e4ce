"""HTTP without any notion of a model: requests, retries, connections, uploads, server-sent events."""
