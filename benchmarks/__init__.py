"""Benchmarks of speed and quality against other libraries: `python -m benchmarks --help` lists them."""
