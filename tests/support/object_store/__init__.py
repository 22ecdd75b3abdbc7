"""An S3 server in a process of its own, and a proxy before it that can be told to misbehave."""
