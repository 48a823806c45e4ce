"""Feature models: linear models on features whose inner products approximate a kernel."""
