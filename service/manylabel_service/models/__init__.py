"""The models of this process, of both kinds: which are in memory, and how they come and go."""
