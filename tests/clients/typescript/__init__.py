"""The package for TypeScript, as npm installs it, compiled against and used."""
