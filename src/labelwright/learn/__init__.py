"""Learning: an objective, optimisers that minimise it, and a monitor that watches over the run."""
