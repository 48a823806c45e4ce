"""Who may do what: keys, their scopes and the names that they are for, kept in the store; knows no HTTP and no model.

- `key_text`, `key`: a key as it is sent, and as it is kept; `scopes`, `patterns`: what it is for
- `grant`: what the caller of a request may do; `keyring`: the keys as this process knows them, which says so
- `key_store`: the keys of a store, changed; `__main__`: the first key of a store
"""
