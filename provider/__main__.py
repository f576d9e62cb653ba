"""`python -m provider`, as the console script."""

from provider.cli import run_from_command_line

run_from_command_line()
