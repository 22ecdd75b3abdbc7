"""The controller's own re-planning: without a lake and without Spark, in a process of its own."""
