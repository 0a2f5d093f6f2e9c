"""A trained network in a browser: the engine in JavaScript, and the export of a run for it."""
