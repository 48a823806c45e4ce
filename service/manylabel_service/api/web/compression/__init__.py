"""Compressed bodies: requests are decompressed within limits, responses are compressed on request."""
