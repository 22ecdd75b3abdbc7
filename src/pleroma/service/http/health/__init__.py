"""Whether the service and its network are as they should be, and who is told when they are not."""
