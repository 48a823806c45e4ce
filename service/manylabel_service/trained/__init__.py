"""Trained models: versions that jobs have made, of which one is served."""
