"""Figures (`plots`) and the interactive page (`page`). Imported where used, since drawing is optional."""
