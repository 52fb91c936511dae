"""`python -m labelwright` is the same as the command `labelwright`."""

import sys

from labelwright.cli import main

if __name__ == "__main__":
    sys.exit(main())
