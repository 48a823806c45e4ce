"""A sidecar of paperless-ngx: `archive` speaks to paperless, `sidecar` translates, `listener` hears its webhooks."""
