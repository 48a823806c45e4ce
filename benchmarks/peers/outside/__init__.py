"""Peers that run outside of this Python: in a Java, or in an environment of their own with other versions."""
