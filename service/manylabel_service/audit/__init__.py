"""Audit: who changed, exported or was refused what, as lines of a file that rotates; knows no HTTP and no model."""
