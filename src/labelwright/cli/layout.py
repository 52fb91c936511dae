"""Lines that several views of `inspect` share: names with values, bars, small curves."""

import math
import shutil
import textwrap
from collections.abc import Sequence
from typing import Any

from labelwright.cli.common import counted, show

BLOCKS = "▁▂▃▄▅▆▇█"
BAR = 24  # letters of the longest bar
HALF = 10  # of the longest to one side of an axis
WIDEST = 120  # letters of a line, also where the terminal is wider
NO_COLUMNS = "(no columns: trained on dicts or arrays)"


# -- what is known of a model ---------------------------------------------------------------------------------------


def template_row(template: dict[str, str] | None) -> tuple[str, str]:
    """What the template is called, and how long it is."""
    if template is None:
        return "template", "none"
    lines = [line for line in template["text"].splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return "template", f"{template['name']}, {counted(len(lines), 'line')}"


def label_row(training: dict[str, Any]) -> list[tuple[str, str]]:
    """Which column of the training file is the label; models made in Python do not know."""
    names, label = training.get("columns"), training.get("label")
    if not names or label not in names:
        return []
    return [("label", f"{label}, column {names.index(label) + 1} of {','.join(names)}")]


def size_of_data(training: dict[str, Any]) -> str:
    """How much a model was trained on."""
    return f"{counted(training['sentences'], 'sentence')}, {counted(training['tokens'], 'token')}"


def weights_text(facts: dict[str, Any]) -> str:
    """How many weights were trained, and how many of them are not zero."""
    return f"{facts['n_weights']:,} ({facts['n_nonzero']:,} not zero)"


def score_text(score: float, scheme: str | None) -> str:
    """A score on development data by its name: of chunks F1, of other labels the accuracy of tokens.

    >>> score_text(0.75621, "iob2"), score_text(0.9, None)
    ('F1 75.62', 'accuracy 90.00')
    """
    return f"{'accuracy' if scheme is None else 'F1'} {100 * score:.2f}"


def curves(history: Sequence[dict[str, Any]], with_loss: bool) -> list[tuple[str, str]]:
    """The loss (on a logarithmic scale) and the development score as small curves; a loss may be infinite.

    >>> curves([{"loss": 4.0}, {"loss": math.inf}, {"loss": 1.0}], with_loss=True)
    [('loss', '4.0 █▁ 1.0')]
    """
    losses = [record["loss"] for record in history if 0 < record["loss"] < math.inf and with_loss]
    scores = [100 * record["dev"] for record in history if "dev" in record]
    rows = []
    if len(losses) > 1:
        curve = sparkline([math.log(loss) for loss in losses])
        rows.append(("loss", f"{losses[0]:,.1f} {curve} {losses[-1]:,.1f}"))
    if len(scores) > 1:
        rows.append(("dev", f"{scores[0]:.2f} {sparkline(scores)} {scores[-1]:.2f}"))
    return rows


# -- lines ------------------------------------------------------------------------------------------------------------


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """A curve in one line of text.

    >>> sparkline([0.0, 1.0, 2.0, 3.0])
    '▁▃▆█'
    """
    if len(values) > width:
        values = [values[round(k * (len(values) - 1) / (width - 1))] for k in range(width)]
    low, high = min(values), max(values)
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(BLOCKS[round((value - low) * scale)] for value in values)


def bar(value: float, highest: float) -> str:
    """A bar as long as the value is large.

    >>> bar(1.0, 2.0), bar(0.0, 0.0)
    ('████████████', '')
    """
    return "█" * round(BAR * value / highest) if highest > 0 else ""


def signed_bar(value: float, largest: float) -> str:
    """A bar from an axis to the right or, of what is negative, to the left, as long as the value is large.

    >>> signed_bar(1.0, 2.0), signed_bar(-2.0, 2.0)
    ('          │█████     ', '██████████│          ')
    """
    blocks = "█" * round(HALF * abs(value) / largest)
    left, right = ("", blocks) if value > 0 else (blocks, "")
    return f"{left:>{HALF}}│{right:<{HALF}}"


def show_rows(rows: Sequence[tuple[str, str]]) -> None:
    """Names and values, wrapped to the width of the terminal; where one is wrapped, none keeps its alignment."""
    indent = max(len(name) for name, _ in rows) + 4
    if any(indent + len(value) > _width() for _, value in rows):
        rows = [(name, " ".join(value.split())) for name, value in rows]
    for name, value in rows:
        first = f"  {name}".ljust(indent)
        lines = textwrap.wrap(
            value,
            _width(),
            initial_indent=first,
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in lines or [first.rstrip()]:
            show(line)


def _width() -> int:
    return min(shutil.get_terminal_size().columns, WIDEST)


def calibration_text(calibration: dict[str, Any] | None) -> str:
    """What was fitted on held-out data, and on how many."""
    if calibration is None:
        return "not calibrated; train with --dev FILE, or use labelwright calibrate"
    maps = ", monotone maps" if calibration.get("method") == "isotonic" else ""
    fitted = f"temperature {calibration['temperature']:.4g}{maps}"
    temperature = f"{fitted}, on {counted(calibration['sentences'], 'sentence')}"
    return f"{temperature}; {calibration['log_likelihood_per_token']:.4f} log-likelihood per token"
