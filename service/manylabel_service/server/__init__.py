"""Processes and ports; knows no models."""
