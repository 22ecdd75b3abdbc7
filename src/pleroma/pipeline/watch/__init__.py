"""Following the traffic: windows as they close, and a better plan for the controller when there is one."""
