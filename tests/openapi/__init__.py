"""The description of the interface, held against the service by programs that know no more of it."""
