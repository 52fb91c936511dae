"""`python -m labelwright.compat SCRIPT [ARGUMENTS]`: run a program with labelwright in place of
CRFsuite."""

import runpy
import sys
from pathlib import Path

from labelwright.compat import replace

USAGE = """usage: python -m labelwright.compat SCRIPT [ARGUMENTS...]
       python -m labelwright.compat -m MODULE [ARGUMENTS...]

Runs a Python program with labelwright in place of pycrfsuite and sklearn_crfsuite."""


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["-m"]:
        print(USAGE, file=sys.stdout if arguments[:1] in (["-h"], ["--help"]) else sys.stderr)
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    replace()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, "")
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return 0
    script = Path(arguments[0])
    if not script.exists():
        print(f"labelwright.compat: {script}: no such file; see --help", file=sys.stderr)
        return 2
    sys.argv = arguments
    sys.path.insert(0, str(script.resolve().parent))
    runpy.run_path(str(script), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
