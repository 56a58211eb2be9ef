"""Explanations for any time-series model, learned once, given in one forward pass."""
