"""A page on which elements are tried without the rest of the application, under the same policy."""
