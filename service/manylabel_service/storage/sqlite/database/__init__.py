"""Database file of a SQLite store: schema, tables, threads and maintenance. Blocking."""
