"""Kernel models: sums over support vectors, or linear in features of the kernel."""
