"""Runners, which dispatch queued tasks to this process or to RQ workers."""
