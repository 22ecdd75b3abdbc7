"""One module for each resource: a function that takes the service and returns its routes. Handlers stay thin."""
