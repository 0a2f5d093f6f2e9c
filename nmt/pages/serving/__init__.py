"""A trained run behind HTTP: requests that wait become one batch."""
