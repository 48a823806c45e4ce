"""Resources of a server, one per file: values, calls without I/O, sync and async class."""
