"""Training: the objective, the optimizer and its schedule, the loop, and what it writes down."""
