"""Processes and ports, independent of models."""
