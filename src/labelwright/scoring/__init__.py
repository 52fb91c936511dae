"""How weights become the scores of a structure: which weights exist, where each belongs, and
carrying them over."""
