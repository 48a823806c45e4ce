"""Who may do what: scopes, patterns of names, and what they allow; knows no HTTP and no model."""
