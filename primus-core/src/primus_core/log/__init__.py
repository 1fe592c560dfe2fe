"""What ranks say: events, records in files, lines on the console, and the names and units of metrics.

Everything but `primus_core.log.recording` is standard library only, because the rank's parent process imports it.
"""
