"""What benchmarks measure and how their figures are written, for the command and for the ranks. No torch here."""
