"""Plan changes: from one plan of a schema to the next while events flow, without losing one."""
