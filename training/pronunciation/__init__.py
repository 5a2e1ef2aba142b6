"""How words are spoken: a pronouncing dictionary and a small network for what it does not have."""
