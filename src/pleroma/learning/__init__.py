"""The learned index: a tree of cuts grown for traffic, subscriptions and the table of every switch."""
