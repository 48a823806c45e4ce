"""What a client may ask for in a job, and is told about one."""
