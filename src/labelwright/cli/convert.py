"""labelwright convert: between file formats and label schemes."""

from typing import TYPE_CHECKING, Annotated

import typer

from labelwright.cli.common import Columns, Label, check_target, counted, is_conllu, say
from labelwright.errors import CorpusError, OptionError

if TYPE_CHECKING:
    from labelwright.corpus.table import Corpus


def command(
    source: Annotated[str, typer.Argument(metavar="IN", help="Column file (.gz .bz2 .xz too), .conllu, or -.")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="The same kinds, by suffix.")],
    columns: Columns = None,
    label: Label = None,
    keep: Annotated[str | None, typer.Option(metavar="NAMES", help="Write only these columns, in this order.")] = None,
    from_scheme: Annotated[
        str | None, typer.Option(metavar="NAME", help="The scheme of the labels. [default: as they look]")
    ] = None,
    to_scheme: Annotated[
        str | None, typer.Option(metavar="NAME", help="Rewrite the labels as iob1, iob2, ioe1, ioe2, bioes or io.")
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend labels that break their scheme, keeping the chunks conlleval reads.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No summary.")] = False,
) -> None:
    """Convert between plain and compressed column files, CoNLL-U, and label schemes.

    \b
      labelwright convert train.iob1.txt train.bioes.txt.gz --to-scheme bioes
      labelwright convert tagged.txt clean.txt --repair
      labelwright convert en.conllu words.txt --keep form,xpos,upos
      labelwright convert words.txt en.conllu --columns form,upos
    """
    from labelwright.corpus import read_columns, read_conllu, write_columns, write_conllu

    check_target(target)
    if is_conllu(source):
        if columns is not None:
            raise OptionError("--columns: those of CoNLL-U have their names; choose some with --keep")
        corpus = read_conllu(source, label=label or "upos")
    else:
        corpus = read_columns(source, names=columns, label=label)
    changed = 0
    if from_scheme or to_scheme or repair:
        before = corpus.tokens(_label(corpus))
        corpus = _relabelled(corpus, from_scheme, to_scheme, repair)
        changed = sum(a != b for a, b in zip(before, corpus.tokens(_label(corpus)), strict=True))
    if keep is not None:
        from dataclasses import replace

        corpus = replace(corpus.select([name.strip() for name in keep.split(",")]), raw=None)
    elif is_conllu(source) and not is_conllu(target):
        from dataclasses import replace

        corpus = replace(corpus, raw=None)  # without comments, ranges and empty nodes
    write = write_conllu if is_conllu(target) else write_columns
    write(corpus, target)
    if not quiet and target != "-":
        size = f"{counted(len(corpus), 'sentence')}, {counted(corpus.n_tokens, 'token')}"
        say(f"{target}: {size}, {counted(changed, 'label')} changed")


def _label(corpus: "Corpus") -> str:
    if corpus.label is None:
        raise CorpusError(f"{corpus.source}: has no label column; name it with --label")
    return corpus.label


def _relabelled(corpus: "Corpus", source: str | None, target: str | None, repair: bool) -> "Corpus":
    """Labels in another scheme; broken ones are an error unless they are to be mended."""
    from labelwright.corpus import detect_scheme, validate
    from labelwright.corpus.schemes import check_scheme

    found = check_scheme(source) if source else detect_scheme(corpus.values(_label(corpus)), corpus.y)
    if found is None:
        raise CorpusError(
            f"{corpus.source}: column {corpus.label} holds no chunk labels (B-X, I-X, O, ...), "
            f"but such as {corpus.values(_label(corpus))[0]!r}; name the right column with --label"
        )
    if repair:
        return corpus.with_scheme(target or found)
    try:
        problems = validate(corpus.y, found)
    except OptionError as error:
        raise CorpusError(f"{corpus.source}: column {corpus.label}: {error}") from None
    if problems:
        first = problems[0]
        raise CorpusError(
            f"{corpus.source}: sentence {first.sentence}, token {first.token}: {first.message} "
            f"({counted(len(problems), 'such place')}); mend them with --repair, or name the scheme with --from-scheme"
        )
    return corpus.with_scheme(target or found, found)
