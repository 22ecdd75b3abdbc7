"""The papers' figures, and how each is repeated."""
