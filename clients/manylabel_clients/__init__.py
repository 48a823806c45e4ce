"""What users import or run: HTTP clients, river adapters, the `manylabel` command."""
