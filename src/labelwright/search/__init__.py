"""Search for the settings of a tagger."""
