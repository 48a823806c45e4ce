"""Commands that train from many examples at once: jobs of a server, and fits on this machine."""
