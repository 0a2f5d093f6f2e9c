"""Pages for a browser: the report, and the server."""
