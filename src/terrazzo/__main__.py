"""``python -m terrazzo``."""

from terrazzo.cli.main import main

main()
