"""The commands: `primus preflight` and `primus benchmark`."""
