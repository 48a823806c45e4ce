"""Feature models: linear models on features whose inner products are, or approximate, a kernel."""
