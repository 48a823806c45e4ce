"""Resources of a server, one per file: values, requests without I/O, sync and async class."""
