"""Archive: a second copy of a store, which can be restored into a store of either kind.

`layout` names and reads them; `shipping` writes what is new, `service` again and
again beside a server; `archived` reads the log and the states of one model, `restoring` makes a store of them.
"""
