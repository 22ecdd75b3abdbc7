"""A controller on real switches, the same requests to simulated ones, and sockets at the hosts, for tests/network."""
