"""What the state of the control plane consists of: commands, results, records, registrations, regions and rules."""
