"""The plain files of a SQLite store: blobs, and the lock of the directory. Blocking."""
