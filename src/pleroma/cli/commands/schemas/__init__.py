"""`pleroma schema`: the schemas of a controller, and a first schema for data that is there already."""
