"""What runs on each node: looks at it, measures it with the others, and writes down what it saw."""
