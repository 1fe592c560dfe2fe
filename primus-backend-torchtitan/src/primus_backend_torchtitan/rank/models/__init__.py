"""Models that are built from the portable parameters of an architecture."""
