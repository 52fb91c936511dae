"""labelwright convert: between file formats, label schemes, and models of other programs."""

from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated

from labelwright.cli.common import (
    SCHEME_NAMES,
    Columns,
    Format,
    Label,
    LabelNames,
    SkipBadSpans,
    check_file_options,
    check_target,
    counted,
    is_conllu,
    is_model,
    say,
)
from labelwright.cli.options import OTHER, argument, option
from labelwright.errors import CorpusError, OptionError
from labelwright.interchange.formats import FORMATS, format_of
from labelwright.taggers.registry import FOREIGN

if TYPE_CHECKING:
    from labelwright.corpus.file_formats import FileOptions, OpenFile
    from labelwright.corpus.table import Corpus

NOT_WRITTEN = (".jsonl", ".ndjson", ".json", ".parquet")  # formats that are only read


def command(
    source: Annotated[str, argument("A file with sentences, in any format that train reads, -, or a model.", "IN")],
    target: Annotated[str, argument("Column file (.gz .bz2 .xz too), .conllu, -, or a model, by suffix.", "OUT")],
    columns: Columns = None,
    label: Label = None,
    format: Format = None,
    label_names: LabelNames = None,
    skip_bad_spans: SkipBadSpans = False,
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
    """Convert files with sentences to plain or compressed column files, CoNLL-U, and other label schemes; or models to
    and from those of other programs.

    \b
      labelwright convert train.iob1.txt train.bioes.txt.gz --to-scheme bioes
      labelwright convert tagged.txt clean.txt --repair
      labelwright convert en.conllu words.txt --keep form,xpos,upos
      labelwright convert words.txt en.conllu --columns form,upos
      labelwright convert ner.jsonl ner.txt
      labelwright convert ner.crfsuite ner.safetensors
      labelwright convert ner.crf ner.crfsuite
    """
    from labelwright.corpus import write_columns, write_conllu
    from labelwright.corpus.file_formats import FileOptions, opened

    if is_model(source) or format_of(target):
        given = {"columns": columns, "label": label, "keep": keep, "from_scheme": from_scheme, "to_scheme": to_scheme}
        given |= {"format": format, "label_names": label_names}
        _refuse_options(source, given | {"repair": repair or None, "skip_bad_spans": skip_bad_spans or None})
        _convert_model(source, target, quiet)
        return
    check_target(target)
    _check_written(target)
    file = opened(source, format, named=columns is not None or label is not None)
    corpus = _read(file, columns, label, FileOptions(format, label_names, skip_bad_spans))
    changed = 0
    if from_scheme or to_scheme or repair:
        before = corpus.tokens(_label(corpus))
        corpus = _relabelled(corpus, from_scheme, to_scheme, repair)
        changed = sum(a != b for a, b in zip(before, corpus.tokens(_label(corpus)), strict=True))
    if keep is not None:
        corpus = replace(corpus.select([name.strip() for name in keep.split(",")]), raw=None)
    elif file.format == "conllu" and not is_conllu(target):
        corpus = replace(corpus, raw=None)  # without comments, ranges and empty nodes
    write = write_conllu if is_conllu(target) else write_columns
    write(corpus, target)
    if not quiet and target != "-":
        size = f"{counted(len(corpus), 'sentence')}, {counted(corpus.n_tokens, 'token')}"
        say(f"{target}: {size}, {counted(changed, 'label')} changed")


def _refuse_options(source: str, given: dict[str, object]) -> None:
    """Models have no columns and no label schemes to change."""
    for name, value in given.items():
        if value is not None:
            raise OptionError(f"{name}: is for files with sentences, but {source} is a model")


def _convert_model(source: str, target: str, quiet: bool) -> None:
    """Write a model for another program, or that of another program for labelwright."""
    from labelwright.interchange import formats
    from labelwright.interchange.chains import not_carried
    from labelwright.taggers.registry import load

    check_target(target, [source], for_model=True)
    if is_model(target):
        raise OptionError(f"{target}: is a model, which this command would replace; name another file to write")
    model, form = load(source), format_of(target)
    lost: list[str] = []
    if form is not None:
        n_features, lost = len(formats.save(model, target, form).attributes), not_carried(model)
    elif _is_foreign(source):
        n_features = model.save(target)._extractor.n_features
    else:
        suffixes = ", ".join(FORMATS.values())
        raise OptionError(f"{source}: is a model of labelwright already; name an OUT that ends with {suffixes}")
    if not quiet:
        say(f"{target}: {counted(len(model.classes_), 'label')}, {counted(n_features, 'feature')}")
    if lost and not quiet:
        say(f"not carried over: {', '.join(lost)}")


def _is_foreign(path: str) -> bool:
    """Whether a file is a model of another program."""
    with open(path, "rb") as file:
        return file.read(9).startswith(tuple(FOREIGN))


def _check_written(target: str) -> None:
    """Refuse to write columns under the name of another format."""
    from labelwright.corpus.compressed import CODECS

    suffixes = [suffix for suffix in PurePath(target.lower()).suffixes if suffix not in CODECS]
    if suffixes and suffixes[-1] in NOT_WRITTEN:
        raise OptionError(
            f"{target}: {suffixes[-1]} files are read, not written; name an OUT with columns, or a .conllu file"
        )


def _read(file: "OpenFile", columns: str | None, label: str | None, options: "FileOptions") -> "Corpus":
    """The sentences of a file, with all columns that it has."""
    from labelwright.corpus.file_formats import read_corpus

    if file.format == "crfsuite":
        raise CorpusError(f"{file.name}: holds attributes (CRFsuite's data), which cannot be written as columns")
    if file.format == "conllu" and columns is not None:
        raise OptionError("--columns: CoNLL-U names its columns itself; choose some with --keep")
    check_file_options(file, options)
    corpus, notes = read_corpus(file, columns, label, options)
    for note in notes:
        say(f"labelwright: {note}")
    return corpus


def _label(corpus: "Corpus") -> str:
    if corpus.label is None:
        raise CorpusError(f"{corpus.source}: has no label column; name it with --label")
    return corpus.label


def _relabelled(corpus: "Corpus", source: str | None, target: str | None, repair: bool) -> "Corpus":
    """Labels in another scheme; labels that break their own are an error unless they are to be repaired."""
    from labelwright.corpus.partial_labels import check_known

    check_known(corpus.y, corpus.source)
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
