"""The server: requests, streams, starts, replicas, and predictions beside jobs."""
