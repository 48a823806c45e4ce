"""Hosting of models: code shared by online and trained models, independent of both."""
