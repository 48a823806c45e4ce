"""Calls to Redis: connection, capabilities, circuit breaker, errors."""
