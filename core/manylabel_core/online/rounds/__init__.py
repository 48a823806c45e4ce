"""What one example teaches, seen from its scores alone."""
