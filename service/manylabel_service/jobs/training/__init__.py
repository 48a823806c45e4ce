"""The child process that trains."""
