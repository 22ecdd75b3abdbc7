"""Several processes on one log: any number of gates, and one process at a time that leads."""
