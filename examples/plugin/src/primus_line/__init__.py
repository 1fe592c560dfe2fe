"""A back end, a launcher and a check for Primus."""
