"""HTTP API, version 1, in four layers: routers, translation, schemas, web. A layer imports only later ones of this
list."""
