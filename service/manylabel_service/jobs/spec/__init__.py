"""Specification of jobs: requests and responses."""
