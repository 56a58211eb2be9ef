"""Layers that reference models and the explanation generator share."""
