"""Access control: API keys, their scopes and the models they include. Independent of HTTP and models.

- `key_text`, `key`: a key as sent, and the stored keys
- `scopes`, `patterns`: permissions of keys
- `grant`: permissions of the caller of a request; `keyring`: authentication by the keys known to this process
- `rates`: rate limits of keys and of attempts with wrong keys; `__main__`: creation of the first key
"""
