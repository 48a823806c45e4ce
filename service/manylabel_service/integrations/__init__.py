"""Interfaces of other products: each a thin translation layer in its own folder."""
