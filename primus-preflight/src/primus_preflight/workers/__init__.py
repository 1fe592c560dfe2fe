"""What measures: one process for each device, the only part of a preflight that loads torch.

The agent names these modules by string and forks into them, so that it needs no torch itself.
"""
