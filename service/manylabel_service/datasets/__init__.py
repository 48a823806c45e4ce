"""Data sets: uploaded, kept in the store, and fetched by whoever trains on them.

Nothing is imported here: the processes that read files shall start quickly, and with little in memory.
"""
