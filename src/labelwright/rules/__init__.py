"""Users' constraints on labellings, and the solver that satisfies them."""
