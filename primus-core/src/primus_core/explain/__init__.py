"""What a configuration means, as data: explanations, differences, verdicts, a schema for editors. Prints nothing."""
