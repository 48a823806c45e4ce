"""Plain files of a SQLite store: snapshots, blobs, and the lock of the directory. Blocking."""
