"""`python -m labelwright` is the same as the command `labelwright`."""

import sys


def main() -> int:
    """Run one command; Ctrl-C ends it quietly while it is still being imported, and so does a lack
    of memory."""
    try:
        from labelwright.cli import main as run
    except KeyboardInterrupt:
        sys.stderr.write("labelwright: interrupted\n")
        return 130
    except (ImportError, MemoryError) as error:
        # an ImportError is what the loader of shared libraries makes of it
        if isinstance(error, ImportError) and "failed to map segment" not in str(error):
            raise
        sys.stderr.write("labelwright: not enough memory to start; raise the limit (ulimit -v)\n")
        return 2
    return run()


if __name__ == "__main__":
    sys.exit(main())
