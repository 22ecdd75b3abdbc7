"""The controller's API in datagrams, for programs that have no other way to it."""
