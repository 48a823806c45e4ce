"""A page that tests elements without the rest of the application, under the same policy."""
