"""Access control: API keys, their scopes and the models they include. Independent of HTTP and models.

- `key_text`, `key`: a key as it is sent, and as it is kept; `token_text`: tokens derived from one
- `scopes`, `patterns`: what keys are for
- `grant`: what the caller of a request may do; `keyring`: the keys as this process knows them, which says so
- `rates`: what a key may ask for at most; `attempts`: wrong keys
- `key_store`: the keys of a store, changed; `__main__`: the first key of a store
"""
