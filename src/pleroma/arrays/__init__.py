"""Compiled kernels: functions over arrays that become machine code."""
