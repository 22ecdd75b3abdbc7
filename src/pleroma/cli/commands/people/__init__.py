"""Commands about people: principals, groups of rights, and the contexts in which one talks to controllers."""
