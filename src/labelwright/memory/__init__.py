"""Memory-based learning: instances are kept as they are, and the nearest ones answer."""
