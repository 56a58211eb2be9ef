"""Explaining files that are larger than memory: here, chunk after chunk, or on Ray."""
