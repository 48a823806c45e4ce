"""Datasets: uploaded, stored, and fetched by training processes.

This module imports nothing, because the processes that parse files must start quickly and use little memory.
"""
