"""What a browser shows: the report and the server's page."""
