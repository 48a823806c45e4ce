"""One file for each resource of a server: its values, its requests without I/O, its sync and its async class."""
