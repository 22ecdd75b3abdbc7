"""The figures of every publication: the settings of each scenario and the claims, here and nowhere else."""
