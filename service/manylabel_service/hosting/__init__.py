"""Code shared by online and trained models, independent of both."""
