"""The networks a service can run on: simulated switches, OpenFlow switches, or a broker."""
