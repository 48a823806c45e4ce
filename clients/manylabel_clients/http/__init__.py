"""The HTTP client: sync and async faces over one base that does no I/O."""
