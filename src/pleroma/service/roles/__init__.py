"""What a process does where several share a log, which of them leads, and how they talk to each other."""
