"""labelwright reproduce: the experiments of the papers, from the corpus to a report beside the published figures."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labelwright import signals
from labelwright.cli.common import counted, say, show
from labelwright.cli.options import OUTPUT, argument, option
from labelwright.errors import OptionError

if TYPE_CHECKING:
    from labelwright.reproduce.work import Work

CORPORA = "LABELWRIGHT_CORPORA"


def command(
    name: Annotated[str, argument("Which experiment; `all` runs one after the other.", "NAME")],
    corpora: Annotated[
        str | None, option(f"Folder with a folder for each corpus; otherwise that of {CORPORA}.", "DIR")
    ] = None,
    out: Annotated[
        str, option("Folder for the report and for what a resumed run needs.", "DIR", OUTPUT, "--out", "-o")
    ] = ".",
    quick: Annotated[
        bool, option("A run of a minute or two on small parts of the data: figures mean nothing.")
    ] = False,
    fresh: Annotated[bool, option("Begin anew, whatever an earlier run has left.")] = False,
) -> None:
    """Run the experiments of a paper and report their figures beside the published ones.

    \b
      labelwright reproduce latperc-synthetic -o papers
      labelwright reproduce ldi-np --corpora corpora -o papers
      labelwright reproduce all --corpora corpora -o papers --quick

    \b
    ldi-np, ldi-bioner    latent-dynamic inference (Sun & Tsujii 2009)
    latperc-synthetic, latperc-np, latperc-bioner
                          the latent perceptron (Sun et al. 2009)
    multilayer            jointly trained cascades (Azuma & Matsumoto 2011)
    csi                   constraint satisfaction inference (Canisius et al. 2006)

    Writes NAME.md, NAME.html, NAME.results.json and figures.  An interrupted run resumes with the same command.
    """
    from labelwright.reproduce import ALL, PAPERS, experiment
    from labelwright.reproduce.work import Work

    experiments = [experiment(each) for each in (PAPERS if name == ALL else [name])]
    place = corpora or os.environ.get(CORPORA)
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise OptionError(f"{out}: cannot make this folder: {problem.strerror}") from None
    corpora_at = None if place is None else Path(place)
    for work in [Work(each, corpora_at, folder, quick, say, fresh) for each in experiments]:  # all corpora are there
        _reproduce(work, folder)


def _reproduce(work: "Work", folder: Path) -> None:
    """Run one experiment, or the rest of it, and write its report."""
    from labelwright.reproduce.experiment_report import Run, write_report

    experiment, quick = work.experiment, work.quick
    try:
        findings = work.run()
    except KeyboardInterrupt:
        done = f"{signals.what_happened()} after {counted(len(work.results), 'step')}"
        say(f"{experiment.name}: {done}; the same command resumes there")
        raise typer.Exit(signals.exit_status()) from None
    asked = ["labelwright", "reproduce", experiment.name, *(["--corpora", "CORPORA"] if experiment.corpora else [])]
    line = shlex.join([*asked, "-o", "DIR", *(["--quick"] if quick else [])])
    seconds = sum(result["step_seconds"] for result in work.results.values())
    run = Run(line, seconds, sorted(work.machines), quick)
    for path in write_report(experiment, findings, folder, run):
        show(str(path))
