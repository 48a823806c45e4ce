"""Measurements of speed and quality beside peers: `python -m benchmarks --help` names them."""
