"""A scored sentence answers questions: one protocol for lattices, segment graphs and n-gram
proposals."""
