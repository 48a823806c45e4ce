"""Interfaces of other products, each a thin translation in a folder of its own."""
