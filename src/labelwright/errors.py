"""Everything that labelwright raises on purpose: one base class, one clear line each."""


class LabelwrightError(ValueError):
    """Base of all errors that a user can mend; its text says where, what came, what was expected."""


class CorpusError(LabelwrightError):
    """A data file or a list of sequences is not what it should be."""


class TemplateError(LabelwrightError):
    """A feature template cannot be read; the text names the line and the column."""


class ModelFileError(LabelwrightError):
    """A model file is damaged, foreign, or cannot be written."""


class OptionError(LabelwrightError):
    """An argument is out of range or contradicts another."""


class NotFittedError(LabelwrightError, AttributeError):
    """The model must be trained (or loaded) before it can label."""
