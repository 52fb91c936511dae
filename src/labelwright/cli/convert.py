"""labelwright convert: between file formats and label schemes."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from labelwright.cli.common import SCHEME_NAMES, Columns, Label, check_target, counted, is_conllu, say
from labelwright.cli.options import OTHER, argument, option
from labelwright.errors import CorpusError, OptionError

if TYPE_CHECKING:
    from labelwright.corpus.table import Corpus


def command(
    source: Annotated[str, argument("Column file (.gz .bz2 .xz too), .conllu, or -.", "IN")],
    target: Annotated[str, argument("The same kinds, by suffix.", "OUT")],
    columns: Columns = None,
    label: Label = None,
    keep: Annotated[str | None, option("Write only these columns, in this order.", "NAMES")] = None,
    from_scheme: Annotated[str | None, option("The scheme of the labels. [default: as they look]", "NAME")] = None,
    to_scheme: Annotated[str | None, option(f"Rewrite the labels as {SCHEME_NAMES}.", "NAME")] = None,
    repair: Annotated[
        bool,
        option(
            "Correct labels that break their scheme, keeping the chunks that conlleval reads.", None, OTHER, "--repair"
        ),
    ] = False,
    quiet: Annotated[bool, option("No summary.", None, OTHER, "--quiet", "-q")] = False,
) -> None:
    """Convert between plain and compressed column files, CoNLL-U, and label schemes.

    \b
      labelwright convert train.iob1.txt train.bioes.txt.gz --to-scheme bioes
      labelwright convert tagged.txt clean.txt --repair
      labelwright convert en.conllu words.txt --keep form,xpos,upos
      labelwright convert words.txt en.conllu --columns form,upos
    """
    from labelwright.corpus import write_columns, write_conllu

    check_target(target)
    corpus = _read(source, columns, label)
    changed = 0
    if from_scheme or to_scheme or repair:
        before = corpus.tokens(_label(corpus))
        corpus = _relabelled(corpus, from_scheme, to_scheme, repair)
        changed = sum(a != b for a, b in zip(before, corpus.tokens(_label(corpus)), strict=True))
    if keep is not None:
        corpus = replace(corpus.select([name.strip() for name in keep.split(",")]), raw=None)
    elif is_conllu(source) and not is_conllu(target):
        corpus = replace(corpus, raw=None)  # without comments, ranges and empty nodes
    write = write_conllu if is_conllu(target) else write_columns
    write(corpus, target)
    if not quiet and target != "-":
        size = f"{counted(len(corpus), 'sentence')}, {counted(corpus.n_tokens, 'token')}"
        say(f"{target}: {size}, {counted(changed, 'label')} changed")


def _read(source: str, columns: str | None, label: str | None) -> "Corpus":
    """A column file or, by its suffix, a CoNLL-U file."""
    from labelwright.corpus import read_columns, read_conllu

    if not is_conllu(source):
        return read_columns(source, names=columns, label=label)
    if columns is not None:
        raise OptionError("--columns: CoNLL-U names its columns itself; choose some with --keep")
    return read_conllu(source, label=label or "upos")


def _label(corpus: "Corpus") -> str:
    if corpus.label is None:
        raise CorpusError(f"{corpus.source}: has no label column; name it with --label")
    return corpus.label


def _relabelled(corpus: "Corpus", source: str | None, target: str | None, repair: bool) -> "Corpus":
    """Labels in another scheme; labels that break their own are an error unless they are to be repaired."""
    scheme = _scheme(corpus, source)
    if not repair:
        _check_valid(corpus, scheme)
    return corpus.with_scheme(target or scheme, None if repair else scheme)


def _scheme(corpus: "Corpus", given: str | None) -> str:
    """The scheme of the labels: the one given, else as they look."""
    from labelwright.corpus import detect_scheme
    from labelwright.corpus.schemes import check_scheme

    values = corpus.values(_label(corpus))
    scheme = check_scheme(given) if given else detect_scheme(values, corpus.y)
    if scheme is None:
        raise CorpusError(
            f"{corpus.source}: column {corpus.label} has no chunk labels (B-X, I-X, O, ...), but such as "
            f"{values[0]!r}; name the right column with --label"
        )
    return scheme


def _check_valid(corpus: "Corpus", scheme: str) -> None:
    """Refuse labels that break their scheme."""
    from labelwright.corpus import validate

    try:
        problems = validate(corpus.y, scheme)
    except OptionError as error:
        raise CorpusError(f"{corpus.source}: column {corpus.label}: {error}") from None
    if problems:
        first = problems[0]
        raise CorpusError(
            f"{corpus.source}: sentence {first.sentence}, token {first.token}: {first.message} "
            f"({counted(len(problems), 'such place')}); correct them with --repair, or name the scheme with "
            "--from-scheme"
        )
