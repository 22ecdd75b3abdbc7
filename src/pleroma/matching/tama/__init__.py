"""TAMA, the matching of Zhao and Wu: values discretized level by level, and matches counted."""
