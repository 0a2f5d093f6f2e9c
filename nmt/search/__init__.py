"""Search for translations: pure steps over small records, independent of the network."""
