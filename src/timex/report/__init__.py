"""What people look at: figures (`plots`). Imported where used, since drawing is optional."""
