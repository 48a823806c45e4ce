"""Sphinx extensions that build the site from the pages in docs; docs/conf.py lists them."""
