"""The API for hosts that reach the controller only through the network itself."""
