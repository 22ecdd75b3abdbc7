"""The live network: simulated switches between real processes, each host a UDP port on loopback."""
