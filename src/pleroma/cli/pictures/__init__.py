"""Everything that a command draws, as matplotlib figures in files."""
