"""Looks at a node, without torch: its host, its accelerators and its network. Each is one file and one function."""
