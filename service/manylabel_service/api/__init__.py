"""HTTP API, version 1: routers > translation > schemas > web; each layer imports only those to its right."""
