"""Features: templates compiled to a plan over interned columns, feature dicts, and arrays of
numbers."""
