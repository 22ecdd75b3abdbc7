"""What an index is worth: waste on events and rules on switches, the two numbers every tuner and experiment uses."""
