"""Sidecar of paperless-ngx: `archive` calls paperless, `sidecar` translates, `listener` receives its
webhooks, `alike` lists labels that look alike."""
