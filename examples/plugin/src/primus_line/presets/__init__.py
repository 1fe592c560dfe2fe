"""Presets of the back end `line`; Primus reads the YAML files beside this one."""
