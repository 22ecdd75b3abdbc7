"""The ways into the network: a socket at a host of a real one, or a tunnel into the embedded one."""
