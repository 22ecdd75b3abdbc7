"""When to look for a better plan, what to propose, and what a plan would do on the network as it is."""
