"""Training: the objective, the optimiser and its schedule, the loop, and what it writes down."""
