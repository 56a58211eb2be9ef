"""Files to and from records."""
