"""The papers' indexes: statistics of traffic, dimension selection, adaptive cells, rectangles, and the best of all."""
