"""Telemetry: the log lines and metrics that an operator sees."""
