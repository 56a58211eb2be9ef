"""`python -m timex`: the command `timex`, for where the environment's scripts are not on the path."""

from timex.cli import main

main()
