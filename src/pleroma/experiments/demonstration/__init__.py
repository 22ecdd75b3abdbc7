"""The whole system at work: a controller, a network, clients and the pipeline as processes."""
