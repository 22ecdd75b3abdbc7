"""The HTTP API: the application and its middleware, the resources, and the models of requests and answers."""
