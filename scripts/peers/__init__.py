"""Other toolkits, each in an environment of its own, on the same machine, data and task as this one."""
