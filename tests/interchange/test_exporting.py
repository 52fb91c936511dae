"""Programs of one file label as the model does: in Python without any package, and in Node."""

import functools
import json
import random
import re
import shutil
import subprocess
import sys
import unicodedata

import pytest

import labelwright
from labelwright.corpus.tokenizer import Tokenizer, tokenizer_of
from labelwright.errors import ModelFileError
from labelwright.features.template import apply, parse_template
from labelwright.interchange.exporting import program, save_program, suffix_of
from labelwright.taggers.registry import model_class

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="needs Node")
LANGUAGES = ["py", pytest.param("js", marks=needs_node), pytest.param("mjs", marks=needs_node)]
TEMPLATE = r"""
B
U0:
U1:%x[0,0]/%X[-1,0]
U2:%suffix[0,0,2]/%prefix[1,0,1]/%shape[2,0]
*3:%short_shape[0,0]
U4:%x[@1,0]/%x[@-2,0]
B5:%x[-1,1]/%x[0,1]
U6:%m[0,0,"^\u?\w*ness?$"]/%t[-1,0,"\d.*\p$"]/%M[0,0,"\A\u"]
U7:%x[-5,1]
"""
RUN = {
    "py": "import json, sys; sys.path.insert(0, sys.argv[1]); from tagger import Tagger; tagger = "
    "Tagger()\n"
    "print(json.dumps([getattr(tagger, sys.argv[2])(x) for x in json.load(sys.stdin)]))",
    "js": "const { Tagger } = require(process.argv[1] + '/tagger.js'), tagger = new Tagger();\n",
    "mjs": (
        "const { Tagger } = await import(process.argv[1] + '/tagger.mjs'), tagger = new Tagger();\n"
    ),
}
RUN |= {
    name: RUN[name] + "const X = JSON.parse((await import('fs')).readFileSync(0, 'utf8'));\n"
    "console.log(JSON.stringify(X.map((x) => tagger[process.argv[2] === 'tag' ? 'tag' : "
    "'tagText'](x))));"
    for name in ("mjs",)
}
RUN["js"] += (
    "const X = JSON.parse(require('fs').readFileSync(0, 'utf8'));\n"
    "console.log(JSON.stringify(X.map((x) => tagger[process.argv[2] === 'tag' ? 'tag' : "
    "'tagText'](x))));"
)


def answers(folder, language, X, question="tag"):
    """What the program in this folder answers, in a process of its own without site-packages."""
    module = ["--input-type=module"] if language == "mjs" else []
    command = [sys.executable, "-I", "-S", "-c"] if language == "py" else [NODE, *module, "-e"]
    run = [*command, RUN[language], str(folder), question]
    done = subprocess.run(run, input=json.dumps(X).encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def made(n, seed):
    """Sentences with two columns and their labels."""
    draw = random.Random(seed)
    words = [
        "Kindness",
        "42-",
        "übel",
        "ÉTÉ",
        "x",
        "Straße",
        "_B-1",
        "北京",
        "\U0001d518no",
        "a|b",
        "I",
        "co-op",
        "madness",
    ]
    X, y = [], []
    for _ in range(n):
        tokens = [(draw.choice(words), draw.choice("NVA")) for _ in range(draw.randint(1, 9))]
        labels = ["O" if tag == "V" else f"{draw.choice('BI')}-{tag}" for _, tag in tokens]
        X.append(tokens)
        y.append(
            [
                re.sub("^I", "B", b) if a[2:] != b[2:] else b
                for a, b in zip(["O", *labels], labels, strict=False)
            ]
        )
    return X, y


@functools.cache
def model(name, settings=()):
    tagger = model_class(name)(
        template=parse_template(TEMPLATE), n_jobs=1, max_iter=12, **dict(settings)
    )
    return tagger.fit(*made(80, 1))


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("crf", ()),
        ("crf", (("constraints", "scheme"),)),
        ("latent-crf", (("n_latent", 3),)),
        ("perceptron", (("averaging", "none"),)),  # ties
        ("latent-perceptron", ()),
    ],
)
def test_labels_are_those_of_the_model(tmp_path, name, settings, language, bits):
    copy = model(name, settings).compressed(bits=bits)
    save_program(copy, tmp_path / f"tagger.{language}")
    X = made(60, 2)[0]
    expected = copy.predict(X)
    assert answers(tmp_path, language, X) == expected
    assert len({label for labels in expected for label in labels}) > 3


def test_of_a_labelling_that_is_no_best_path(tmp_path):
    """The most probable labelling is exact: somewhere it is not that of the best path."""
    copy = model("latent-crf", (("n_latent", 3),)).compressed(bits=16)
    X = made(60, 2)[0]
    assert copy.predict(X) != [record.labels for record in copy.decode(X, decoder="viterbi")]


EVERY = [
    chr(code)
    for code in range(0x110000)
    if not 0xD800 <= code < 0xE000 and unicodedata.category(chr(code)) != "Cn"
]
READ = ["%lower[0,0]", "%shape[0,0]", "%short_shape[0,0]", '%m[0,0,"\\w\\a\\l\\u"]']
READ += [f'%t[0,0,"^\\{letter}$"]' for letter in "adlpsuwADLPSUW"]


@needs_node
def test_letters_are_read_alike_by_node(tmp_path):
    """Every letter that both versions of Unicode know; a few change from version to version."""
    template = "".join(f"U{i}:{cell}\n" for i, cell in enumerate(READ))
    tagger = labelwright.CRF(template=parse_template(template), max_iter=1, n_jobs=1).fit(
        [["a", "B"]], [["x", "y"]]
    )
    save_program(tagger, tmp_path / "tagger.js")
    seen = """
        const { Tagger } = require(process.argv[1] + "/tagger.js");
        const tagger = new Tagger(), found = [];
        tagger.known.forEach((known) => { known.get = (seen) => { found.push(seen); return 0; }; });
        for (const c of JSON.parse(require("fs").readFileSync(0, "utf8"))) {
          found.push(/^\\p{Cn}/u.test(c));
          tagger.numbersOf(0, c);
          tagger.seen[0].clear();
        }
        const functions = tagger.readers.map((reader) => reader[1]);
        console.log(JSON.stringify([process.versions.unicode, functions, found]));"""
    run = [NODE, "-e", seen, str(tmp_path)]
    output = subprocess.run(
        run, input=json.dumps(EVERY).encode(), capture_output=True, check=True
    ).stdout
    version, functions, found = json.loads(output)
    cells = [cell for pattern in parse_template(template).patterns for cell in pattern.cells]
    readers = list(tagger._extractor.vocabulary.values)
    assert functions == [reader.function for reader in readers]
    assert len(cells) == len(readers)
    rows = [found[i : i + 1 + len(readers)] for i in range(0, len(found), 1 + len(readers))]
    expected = list(zip(*(apply(reader, EVERY) for reader in readers), strict=True))
    differ = [
        c
        for c, row, seen in zip(EVERY, rows, expected, strict=True)
        if not row[0] and row[1:] != list(seen)
    ]
    assert len(differ) <= (0 if unicodedata.unidata_version.startswith(version) else 20), differ


TEXTS = [
    "",
    "Ada's 1,5 m.  She didn't (really) leave! \"Dr. No\" left. Why?",
    "Mr. O'Hara of the U.S. isn't at http://a.b/c?d=e. Mail x.y@z.org...",
    "L'été, qu'il m'a dit: aujourd'hui.\n\nJ. R. R. Tolkien\nwrote books.",
    "他在IBM工作。「好」她说。Now 3.5% more",
    "नमस्ते दुनिया। cafe\u0301s e\u0301te\u0301 \U0001d518no \U0001d504 é.é",
    "gonna gotta cannot Cannot 'tis 'em rock'n'roll New York-based AT&T C++ 10$ US$ 5.",
    "KELVIN'\u017f \u212aelvin it'\u017f i'll I'LL l\u2019Italia",
]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "tokenizer",
    [
        Tokenizer(),
        Tokenizer(name="ptb"),
        Tokenizer(characters=True),
        Tokenizer(sentences="lines"),
        Tokenizer(sentences="none"),
    ],
    ids=str,
)
def test_texts_are_split_alike(tmp_path, tokenizer, language):
    tagger = labelwright.CRF(max_iter=5, n_jobs=1).fit(
        [["Ada", "ran"], ["So"]], [["B-X", "O"], ["O"]]
    )
    tagger._remember_tokenizer(tokenizer)
    save_program(tagger.compressed(bits=8), tmp_path / f"tagger.{language}")
    expected = []
    for text in TEXTS:
        units = [
            len(text[:n].encode("utf-16-le")) // 2 if language != "py" else n
            for n in range(len(text) + 1)
        ]
        places = tokenizer_of(tokenizer._asdict())(text)
        labels = tagger.predict([[text[a:b] for a, b in sentence] for sentence in places])
        rows = zip(places, labels, strict=True)
        expected.append(
            [[[units[a], units[b], y] for (a, b), y in zip(*row, strict=True)] for row in rows]
        )
    assert answers(tmp_path, language, TEXTS, "tag_text") == expected


def test_a_token_pattern_of_your_own(tmp_path):
    tagger = labelwright.CRF(max_iter=5, n_jobs=1).fit([["Ada", "ran"]], [["B-X", "O"]])
    tagger._remember_tokenizer(Tokenizer(pattern=r"\w+"))
    save_program(tagger, tmp_path / "tagger.py")
    assert answers(tmp_path, "py", ["Ada ran."], "tag_text") == [[[[0, 3, "B-X"], [4, 7, "O"]]]]
    with pytest.raises(
        ModelFileError, match=r"tagger.js: a token pattern of your own.*export tagger.py"
    ):
        save_program(tagger, tmp_path / "tagger.js")


def test_columns_and_texts_on_the_command_line(tmp_path):
    tagger = labelwright.CRF(max_iter=9, n_jobs=1).fit(
        [["Ada", "ran"], ["So"]], [["B-X", "O"], ["O"]]
    )
    save_program(tagger, tmp_path / "tagger.py")
    run = [sys.executable, "-I", str(tmp_path / "tagger.py")]
    output = subprocess.run(
        run, input="Ada\nran\n\nSo\n", capture_output=True, text=True, check=True
    ).stdout
    assert output == "Ada\tB-X\nran\tO\n\nSo\tO\n"
    (tmp_path / "letter.txt").write_text("Ada ran", encoding="utf-8")
    output = subprocess.run(
        [*run, "--text", tmp_path / "letter.txt"], capture_output=True, text=True, check=True
    ).stdout
    assert output == "Ada\tB-X\nran\tO\n\n"
    refused = subprocess.run(run, input="Ada ran off", capture_output=True, text=True)
    assert refused.returncode
    assert refused.stderr == "line 1: expected word, got 3 columns; for running text add --text\n"


@pytest.mark.parametrize("language", LANGUAGES[:2])
def test_tokens_without_the_columns_are_refused(tmp_path, language):
    save_program(model("crf"), tmp_path / f"tagger.{language}")
    with pytest.raises(AssertionError, match="expected tokens with the columns"):
        answers(tmp_path, language, [["Ada"]])
    with pytest.raises(AssertionError, match=r"give.*tag.*the tokens with"):
        answers(tmp_path, language, ["Ada ran."], "tag_text")
    assert answers(tmp_path, language, [[]]) == [[]]


def test_a_file_is_the_same_every_time():
    assert program(model("crf"), "a.py") == program(model("crf"), "b.py")


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [
        (
            "crf",
            {"order": 2, "template": "words"},
            "order 2: an exported tagger cannot hold this; train with order=1",
        ),
        ("semi-crf", {}, "segments"),
        ("memory", {}, "a MemoryTagger"),
        ("crf", {"prune_labels": 0.9}, "pruned labels"),
        (
            "crf",
            {"dictionaries": {"cities": ["Ada"]}},
            "dictionaries, clusters, vectors or numbers",
        ),
        ("crf", {"template": parse_template("U1:%each[0,0]")}, "%each in the template"),
        (
            "crf",
            {"template": parse_template('U1:%byte_match[0,0,"."]')},
            "%byte_match in the template",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_exported(name, settings, told):
    iterations = {} if name == "memory" else {"max_iter": 3}
    tagger = model_class(name)(**iterations, **settings).fit(
        [["Ada", "ran"], ["So"]] * 4, [["B-X", "O"], ["O"]] * 4
    )
    with pytest.raises(ModelFileError, match=f"^tagger.py: {re.escape(told)}"):
        program(tagger, "tagger.py")


def test_feature_dicts_and_pages_of_columns_are_refused():
    tagger = labelwright.CRF(max_iter=3).fit([[{"w": "Ada"}]], [["O"]])
    with pytest.raises(ModelFileError, match=r"tagger.py: features of dicts: .* train on columns"):
        program(tagger, "tagger.py")
    with pytest.raises(ModelFileError, match=r"page.html: several columns"):
        program(model("crf"), "page.html")
    with pytest.raises(
        ModelFileError, match=r"tagger.rb: expected a name that ends with .py, .js, .mjs, .html"
    ):
        program(model("crf"), "tagger.rb")
    assert suffix_of("a/Tagger.PY") == ".py"
