"""The state of the control plane: a deterministic fold of the log, without I/O and without a clock."""
