"""Counts per sentence, the scores they add up to, and tests of whether two taggers differ."""

from labelwright.evaluate.calibration import CalibrationReport, calibration_report
from labelwright.evaluate.counts import READINGS, Counts, Score, count
from labelwright.evaluate.error_views import ConfusionMatrix
from labelwright.evaluate.errors import Error, ErrorAnalysis
from labelwright.evaluate.matches import DocumentScore, PartialScore
from labelwright.evaluate.report import Macro, Report, evaluate, report_of
from labelwright.evaluate.significance import (
    Bootstrap,
    Comparison,
    McNemar,
    compare,
    intervals,
    mcnemar,
    paired_bootstrap,
)

__all__ = [
    "READINGS",
    "Bootstrap",
    "CalibrationReport",
    "Comparison",
    "ConfusionMatrix",
    "Counts",
    "DocumentScore",
    "Error",
    "ErrorAnalysis",
    "Macro",
    "McNemar",
    "PartialScore",
    "Report",
    "Score",
    "calibration_report",
    "compare",
    "count",
    "evaluate",
    "intervals",
    "mcnemar",
    "paired_bootstrap",
    "report_of",
]
