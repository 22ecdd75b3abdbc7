"""What a period of traffic wasted, on whom and why, and what another plan would have saved."""
