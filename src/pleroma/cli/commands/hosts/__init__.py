"""Commands that run on the hosts of a network."""
