"""Traces as the API answers them: the ways of an event by either plan, and why it comes to a host or does not."""
