"""The experiments of the papers, each from its corpus to a report beside the published figures.

papers.toml has the tables and claims of the papers, and our settings; a module for each paper makes
steps of them (what to train, decode and measure), and rows, figures and claims of the results.
`labelwright reproduce NAME` runs an experiment, resumes it step by step, and writes its report.
"""

import tomllib
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

from labelwright.errors import OptionError
from labelwright.reproduce.work import Experiment
from labelwright.wording import did_you_mean

PAPERS = tomllib.loads(Path(__file__).with_name("papers.toml").read_text(encoding="utf-8"))
SHARED = PAPERS.pop("modules")  # by all experiments of a module
ALL = "all"


def experiment(name: str) -> Experiment:
    """The experiment of this name; its module is imported only now."""
    if name not in PAPERS:
        names = [*PAPERS, ALL]
        raise OptionError(
            f"unknown experiment {name!r}{did_you_mean(name, names)}; experiments: "
            f"{', '.join(names)}"
        )
    facts = dict(PAPERS[name])
    file = facts.pop("module")
    module = import_module(f"labelwright.reproduce.{file}")
    facts |= {
        "task": SimpleNamespace(**SHARED[file], **facts["task"]),
        "source": module.__file__ or "",
    }
    return Experiment(name, steps=module.steps, findings=module.findings, **facts)
