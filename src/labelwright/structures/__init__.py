"""What is scored: state spaces, lattices, segment graphs, label n-grams; and what a layer of a
cascade passes on."""
