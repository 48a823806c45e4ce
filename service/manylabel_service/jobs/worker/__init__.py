"""RQ worker: a process that runs tasks for servers over one Redis."""
