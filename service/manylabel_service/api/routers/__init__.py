"""The endpoints: one file for each resource, and no more in it than its routes."""
