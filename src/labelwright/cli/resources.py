"""labelwright templates, vectors and dictionary: what features are made of."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from labelwright.cli import options as usual
from labelwright.cli.files import check_target, file_options, read_labelled
from labelwright.cli.options import NOT_NEGATIVE, OUTPUT, POSITIVE, argument, command, option
from labelwright.cli.show import report, say, warn
from labelwright.errors import CorpusError, OptionError
from labelwright.settings import REQUIRED, AtLeast, AtMost, Bounds, Whole
from labelwright.wording import counted

# -- labelwright templates -------------------------------------------------------------------------


@command(
    argument("name", "NAME|FILE", "A built-in template, or a file with one.", None),
    usual.JSON,
    option(
        "--columns N",
        "Input columns of the data, without the label.",
        kind=Whole(Bounds(AtLeast(1), AtMost(100))),
        shown="as few as it needs",
    ),
)
def templates_command(o: Any) -> None:
    """List the built-in templates with a line on when to use each, those of papers apart; or print
    one for so many columns.

    \b
      labelwright templates
      labelwright templates ner --columns 2 > my.tpl
      labelwright templates my.tpl --columns 2

    A file is checked: likely mistakes are told, one on each line of standard error.
    """
    from labelwright.features.builtin import BUILTIN, PAPERS, template
    from labelwright.features.extract import mistakes

    if o.name is None:
        facts: dict[str, Any] = {"templates": {key: each.about for key, each in BUILTIN.items()}}
        report(facts | {"papers": list(PAPERS)}, o.json, _listed)
        return
    n_columns = o.columns or max(1, template(o.name, 1, below=True, check=False).n_columns)
    parsed = template(o.name, n_columns, below=True)
    facts = {
        "name": parsed.name,
        "about": BUILTIN[o.name].about if o.name in BUILTIN else None,
        "columns": n_columns,
        "lines": [
            {"line": each.line, "name": each.name, "text": each.text} for each in parsed.patterns
        ],
        "mistakes": [] if o.name in BUILTIN else mistakes(parsed),
    }
    report(facts, o.json, lambda _: [parsed.text.rstrip("\n")])
    for line in [] if o.json else facts["mistakes"]:
        warn(line)


def _listed(facts: dict[str, Any]) -> Iterator[str]:
    """The names of templates, each with its line; those of papers, which come last, apart."""
    width = max(map(len, facts["templates"]))
    for name, about in facts["templates"].items():
        yield from ["\nof papers, to compare with them:"] if name == facts["papers"][0] else []
        yield f"{name:{width}}  {about}"


# -- labelwright vectors ---------------------------------------------------------------------------

COUNTING = "Counting"


@command(
    argument(
        "texts", "TEXT", "Text, or any format that train reads (.gz .bz2 .xz), or -.", several=True
    ),
    option(
        "-o --output FILE",
        "Write the vectors, as train --vectors reads them.",
        OUTPUT,
        None,
        REQUIRED,
    ),
    option(
        "--clusters FILE", "Write clusters, too, as train --clusters NAME=FILE reads them.", OUTPUT
    ),
    usual.COLUMNS,
    usual.FORMAT,
    usual.MAX_INPUT,
    option(
        "--words N",
        "How many words have a vector: the most frequent ones.",
        COUNTING,
        POSITIVE,
        20000,
    ),
    option("--dimensions N", "How many numbers a vector has.", COUNTING, POSITIVE, 50),
    option("--window N", "How many words to either side are neighbours.", COUNTING, POSITIVE, 2),
    option("--min-count N", "Leave out words that occur less often.", COUNTING, POSITIVE, 2),
    option(
        "--bits N",
        "Length of the bit strings of clusters.",
        COUNTING,
        Whole(),
        only_with="clusters",
        shown="10",
    ),
    option("--seed N", "Seed of all randomness.", COUNTING, NOT_NEGATIVE, 0, name="random_state"),
    option("-q --quiet", "No summary.", OUTPUT),
)
def vectors_command(o: Any) -> None:
    """Make word vectors and clusters from text, labelled or not, by counting which words stand
    beside which.

    \b
      labelwright vectors train.txt news.txt.xz -o v.txt --clusters c.txt
      labelwright train train.txt -o model.crf --vectors v.txt --clusters c=c.txt

    A file with the same number of columns on every line has a token on each line; others are text.
    """
    from labelwright.corpus.file_formats import read_words
    from labelwright.features.counting import BITS, cluster_words, count_vectors, write_clusters
    from labelwright.features.numbers import write_vectors

    for target in filter(None, (o.output, o.clusters)):
        check_target(target, o.texts)
    if o.clusters == o.output:
        raise OptionError(f"--clusters: {o.output} gets the vectors; name another file")
    corpus = read_words(o.texts, o.format, o.columns)
    vectors = count_vectors(
        corpus, o.words, o.dimensions, o.window, o.min_count, random_state=o.random_state
    )
    table = {} if o.clusters is None else cluster_words(vectors, BITS if o.bits is None else o.bits)
    write_vectors(vectors, o.output)
    if o.clusters is not None:
        write_clusters(table, o.clusters)
    if o.quiet:
        return
    read = (
        f"{counted(corpus.n_tokens, 'token')}, "
        f"{counted(len(corpus.values('word')), 'different word')}"
    )
    say(
        f"{o.output}: {counted(len(vectors.words), 'word')}, "
        f"{counted(vectors.width, 'dimension')}; {read} read"
    )
    if o.clusters is not None:
        say(f"{o.clusters}: {counted(len(set(table.values())), 'cluster')}")


# -- labelwright dictionary ------------------------------------------------------------------------


@command(
    argument("source", "FILE", "A labelled file, in any format that train reads, or -."),
    *usual.LABELLED,
    usual.MAX_INPUT,
    option("-o --output FILE", "Write to a file.", OUTPUT, default="-"),
    usual.JSON,
    option("--type NAME", "Only phrases of this type, as in PER.", shown="all"),
    option("--min-count N", "Leave out phrases that occur less often.", kind=POSITIVE, default=1),
)
def dictionary_command(o: Any) -> None:
    """List the phrases that labels mark, one on each line, most frequent first.

    \b
      labelwright dictionary train.txt --type LOC -o places.txt
      labelwright train train.txt -o model.crf --dictionary places=places.txt
    """
    from labelwright.corpus.compressed import write_bytes
    from labelwright.corpus.partial_labels import check_known
    from labelwright.corpus.tokenizer import labelled_phrases

    check_target(o.output, [o.source])
    corpus = read_labelled(o.source, o.columns, o.label, None, file_options(o))
    check_known(corpus.y, corpus.source)
    phrases = labelled_phrases(corpus)
    if o.type is not None and o.type not in phrases:
        known = f"; known: {', '.join(phrases)}" if phrases else ""
        raise CorpusError(f"{corpus.source}: no phrase of type {o.type!r}{known}")
    chosen = phrases if o.type is None else {o.type: phrases[o.type]}
    kept = {
        name: {p: n for p, n in counts.most_common() if n >= o.min_count}
        for name, counts in chosen.items()
    }
    if o.json:
        by_type = {
            name: {" ".join(p): n for p, n in counts.items()} for name, counts in kept.items()
        }
        report({"types": by_type}, True, list)
        return
    total: Counter[tuple[str, ...]] = Counter()
    for counts in kept.values():
        total.update(counts)
    lines = [
        line
        for phrase, _ in total.most_common()
        for line in [" ".join(phrase)]
        if tuple(line.split()) == phrase
    ]
    write_bytes(o.output, "".join(f"{line}\n" for line in lines).encode())
    left_out = len(total) - len(lines)
    if left_out:
        say(
            f"{corpus.source}: {counted(left_out, 'phrase')} left out: a word of theirs contains "
            "whitespace"
        )
    if o.output != "-":
        say(f"{o.output}: {counted(len(lines), 'phrase')}")
