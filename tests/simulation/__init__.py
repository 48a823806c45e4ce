"""The service in one thread, with virtual time and faults that follow from a seed."""
