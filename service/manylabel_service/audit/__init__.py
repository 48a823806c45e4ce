"""Audit: changes, exports and rejected calls as lines of JSON; independent of HTTP and models."""
