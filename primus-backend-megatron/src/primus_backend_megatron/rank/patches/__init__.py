"""Factories of the planned patches: each takes the original attribute and returns the new one."""
