"""Ways to run a checkpoint's networks, one folder each. No runtime imports another."""
