"""What makes a site of the pages in docs: extensions of Sphinx, which docs/conf.py names."""
