"""What a client keeps alive: its publishers and subscriptions, its lease, the plans it uses."""
