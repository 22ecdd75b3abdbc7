"""How an event travels through the rules of switches, as they are wanted and as they are."""
