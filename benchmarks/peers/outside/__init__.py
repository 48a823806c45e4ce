"""Contenders that run in Java, or in a separate Python environment with other versions."""
