"""The commands. Each parses its options, calls the other rooms, and prints."""
