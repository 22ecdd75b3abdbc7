"""The papers' ways to make an index: traffic statistics, dimension selection, adaptive and selective splits, advice."""
