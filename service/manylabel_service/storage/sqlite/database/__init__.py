"""The database file of a SQLite store: its schema, its tables, and the threads and upkeep that work on it. Blocking."""
