"""Trained models: versions made by jobs, one of which is served."""
