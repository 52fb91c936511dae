"""Fuzzers: odd inputs, made model files and kills, a few in the tests, any number from the command
line."""

import sys
from pathlib import Path

# as pytest has it, for `python -m`
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
