"""Flow matching: speech tokens to mel frames."""
