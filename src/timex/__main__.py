"""`python -m timex` runs the command `timex`, also if the environment's scripts are not on the path."""

from timex.cli import main

main()
