"""The server: requests, streams, startup, replicas, and predictions while jobs run."""
