"""What survives: faults in the middle of training, models from strangers, text from the web. See scripts/torture.py."""
