"""Audit: changes, exports and rejected calls as lines of a rotating file; independent of HTTP and models."""
