"""labelwright vectors: word vectors and clusters out of plain text."""

from typing import Annotated

from labelwright.cli.common import Columns, Format, check_target, counted, say
from labelwright.cli.options import OUTPUT, argument, option
from labelwright.errors import OptionError

COUNTING = "Counting"


def command(
    texts: Annotated[
        list[str], argument("Text, column files or any other format that train reads (.gz .bz2 .xz), or -.", "TEXT")
    ],
    output: Annotated[
        str, option("Write the vectors, as train --vectors reads them.", "FILE", OUTPUT, "--output", "-o")
    ],
    clusters: Annotated[
        str | None, option("Write clusters, too, as train --clusters NAME=FILE reads them.", "FILE", OUTPUT)
    ] = None,
    columns: Columns = None,
    format: Format = None,
    words: Annotated[int, option("How many words have a vector: the most frequent ones.", "N", COUNTING)] = 20000,
    dimensions: Annotated[int, option("How many numbers a vector has.", "N", COUNTING)] = 50,
    window: Annotated[int, option("How many words to either side are neighbours.", "N", COUNTING)] = 2,
    min_count: Annotated[int, option("Leave out words that occur less often.", "N", COUNTING)] = 2,
    bits: Annotated[int | None, option("Length of the bit strings of clusters. [default: 10]", "N", COUNTING)] = None,
    seed: Annotated[int, option("Seed of all randomness.", "N", COUNTING)] = 0,
    quiet: Annotated[bool, option("No summary.", None, OUTPUT, "--quiet", "-q")] = False,
) -> None:
    """Make word vectors and clusters from text, labelled or not, by counting which words stand beside which.

    \b
      labelwright vectors train.txt news.txt.xz -o vectors.txt --clusters clusters.txt
      labelwright train train.txt -o model.crf --vectors vectors.txt --clusters c=clusters.txt

    A file with the same number of columns on every line has a token on each line; others are text.
    """
    for target in (output, *([clusters] if clusters is not None else [])):
        check_target(target, texts)
    if clusters == output:
        raise OptionError(f"--clusters: {output} gets the vectors; name another file")
    if bits is not None and clusters is None:
        raise OptionError("--bits: only with --clusters; add it")
    from labelwright.corpus.file_formats import read_words
    from labelwright.features.counting import BITS, cluster_words, count_vectors, write_clusters
    from labelwright.features.numbers import write_vectors

    corpus = read_words(texts, format, columns)
    vectors = count_vectors(corpus, words, dimensions, window, min_count, random_state=seed)
    table = cluster_words(vectors, BITS if bits is None else bits) if clusters is not None else {}
    write_vectors(vectors, output)
    if clusters is not None:
        write_clusters(table, clusters)
    if quiet:
        return
    read = f"{counted(corpus.n_tokens, 'token')}, {counted(len(corpus.values('word')), 'different word')}"
    say(f"{output}: {counted(len(vectors.words), 'word')}, {counted(vectors.width, 'dimension')}; {read} read")
    if clusters is not None:
        say(f"{clusters}: {counted(len(set(table.values())), 'cluster')}")
