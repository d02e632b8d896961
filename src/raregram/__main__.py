"""`python -m raregram` is the command line."""

from raregram.cli import main

main()
