"""Printed results: tables for people, JSON for scripts, progress bars."""
