"""The durable log: what was accepted, in order, and snapshots of the state that follows from it."""
