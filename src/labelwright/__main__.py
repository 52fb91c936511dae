"""`python -m labelwright` is the same as the command `labelwright`."""

import sys


def main() -> int:
    """Run one command; Ctrl-C ends it quietly while it is still being imported, too."""
    try:
        from labelwright.cli import main as run
    except KeyboardInterrupt:
        sys.stderr.write("labelwright: interrupted\n")
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
