"""RQ worker: a process that does tasks for servers over one Redis."""
