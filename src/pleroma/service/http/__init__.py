"""The HTTP API: what stands in front of every request, and the shapes of questions and answers."""
