"""The commands of `firstword`, one file each; what is slow to import is imported inside them."""
