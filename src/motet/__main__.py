"""``python -m motet`` is the command ``motet``."""

from motet.cli.app import main

if __name__ == "__main__":
    main()
