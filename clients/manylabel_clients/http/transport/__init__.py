"""HTTP independent of models: requests, retries, connections, uploads, server-sent events."""
