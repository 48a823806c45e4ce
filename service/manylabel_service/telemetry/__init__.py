"""Telemetry: log lines, metrics and traces for operators."""
