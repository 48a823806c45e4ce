"""The HTTP interface, version 1: routers > translation > schemas > web, none of which knows those before it."""
