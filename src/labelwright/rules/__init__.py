"""Users' own constraints on labellings, and the solver that keeps them."""
