"""The launcher that core brings along; others come as plugins."""
