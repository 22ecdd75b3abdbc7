"""The durable log: accepted commands in order, and snapshots of the state that follows from them."""
