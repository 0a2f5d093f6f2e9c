"""The report: runs compared on a test set, as one HTML file to explore."""
