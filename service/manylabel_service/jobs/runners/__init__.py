"""Runners give queued tasks to whoever does them: this process, or RQ workers."""
