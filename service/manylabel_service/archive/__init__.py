"""Archive: a second copy of a store, which can be restored into a store of either kind.

`layout` defines its objects; `shipping` writes new data, `service` does so continuously in a server; `archived` reads
the log and the states of one model; `restoring` restores a store.
"""
