"""Plain files of a SQLite store: blobs, the reserve, and the lock of the directory. Blocking."""
