"""OpenFlow: rules, messages, and connections to switches."""
