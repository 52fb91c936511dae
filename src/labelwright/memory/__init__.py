"""Memory-based learning: instances are stored, and the nearest ones decide."""
