"""The archive: a second place that a store can be restored from, into a store of any kind.

`layout` names and reads them; `shipping` writes what is new, `service` again and
again beside a server; `archived` reads the log and the states of one model, `restoring` makes a store of them.
"""
