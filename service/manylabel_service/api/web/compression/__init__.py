"""Compressed bodies: requests are unpacked as they come, within bounds, and answers packed where that is asked for."""
