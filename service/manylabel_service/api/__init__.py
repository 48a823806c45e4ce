"""The HTTP interface, version 1: it translates between JSON over HTTP and the replicas."""
