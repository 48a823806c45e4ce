"""Access control: API keys, their scopes and the models they include. Independent of HTTP and models.

- `key_text`, `key`: a key as sent, and as stored; `token_text`: tokens derived from a key
- `scopes`, `patterns`: permissions of keys
- `grant`: permissions of the caller of a request; `keyring`: authentication by the keys known to this process
- `rates`: rate limits of keys; `attempts`: rate limit of wrong keys
- `key_store`: keys in the store; `__main__`: creation of the first key
"""
