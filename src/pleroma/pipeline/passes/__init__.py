"""Jobs on Spark that go over all events: statistics, the learned tree, sweeps of scenarios."""
