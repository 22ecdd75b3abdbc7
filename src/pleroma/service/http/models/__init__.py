"""What travels: the bodies of requests, and the shapes of answers as the OpenAPI document describes them.

A file for each family of resources. Requests are strict: a field that nobody knows is a mistake and is refused, and so
is a number where a text belongs.
"""
