"""A trained run behind HTTP: requests that wait become one batch. Needs the extra ``serve``, but for this module."""
