"""Datasets: uploaded, kept in the store, and fetched by the training processes.

This module imports nothing: the processes that read files must start quickly, with little memory.
"""
