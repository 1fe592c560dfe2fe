"""From a resolved experiment and its translation to the plan that every rank reads."""
