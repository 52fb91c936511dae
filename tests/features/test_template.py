"""Templates: what they parse to, what they read, and what they say when they are wrong."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelwright.errors import TemplateError
from labelwright.features.builtin import BUILTIN, template
from labelwright.features.expressions import CLASSES
from labelwright.features.template import Cell, Reader, apply, parse_template


def cells(line):
    return parse_template(line).patterns[0].cells


def read(line, *values):
    return apply(cells(f"U:{line}")[0].reader, list(values))


def test_lines_kinds_comments_and_blank_lines():
    parsed = parse_template(
        "\ufeff# words\r\n\r\n  U01:%x[0,0]/%x[ +1 , 1 ]  # and the tag\r\nb\n*c:%x[0,0]\nT\nU\n",
        "my.tpl",
    )
    assert [(p.kind, p.name, p.line, len(p.cells)) for p in parsed.patterns] == [
        ("U", "U01", 3, 2),
        ("B", "b", 4, 0),
        ("*", "*c", 5, 1),
        ("T", "T", 6, 0),
        ("U", "U", 7, 0),
    ]
    first = parsed.patterns[0]
    assert first.text == "U01:%x[0,0]/%x[ +1 , 1 ]"
    assert first.literals == ("U01:", "/", "")
    assert first.cells == (Cell(0, False, Reader(0, "value")), Cell(1, False, Reader(1, "value")))
    assert parsed.name == "my.tpl"
    assert (parsed.columns, parsed.n_columns) == ((0, 1), 2)
    assert parse_template(parsed.text, "my.tpl") == parsed


def test_name_ends_at_a_colon_of_the_fixed_text_only():
    assert parse_template('U%t[0,0,":"]').patterns[0].name == 'U%t[0,0,":"]'


def test_a_hash_or_quote_inside_a_regular_expression_is_part_of_it():
    assert read(r'%t[0,0," #\""]', ' #"', "#") == ["true", "false"]


def test_absolute_rows_count_from_one_and_are_kept_as_python_counts():
    assert [cells(f"U:%x[@{row},0]")[0][:2] for row in (1, 2, -1)] == [
        (0, True),
        (1, True),
        (-1, True),
    ]


def test_no_cells_need_no_columns():
    assert parse_template("B\nU").n_columns == 0


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%x[0,0]", ["McNeil-27", "of", ""]),
        ("%X[0,0]", ["mcneil-27", "of", ""]),
        ("%lower[0,0]", ["mcneil-27", "of", ""]),
        ("%prefix[0,0,3]", ["McN", "of", ""]),
        ("%suffix[0,0,3]", ["-27", "of", ""]),
        ("%shape[0,0]", ["XxXxxx-dd", "xx", ""]),
        ("%short_shape[0,0]", ["XxXx-d", "x", ""]),
        (r'%m[0,0,"^\u\l?"]', ["Mc", "", ""]),
        (r'%M[0,0,"^\u\l?"]', ["mc", "", ""]),
        (r'%t[0,0,"\d"]', ["true", "false", "false"]),
        (r'%T[0,0,"^\l*$"]', ["false", "true", "true"]),
        (r'%m[0,0,"\u.*\u"]', ["McN", "", ""]),  # a star takes the shortest, as Wapiti's does
        (r'%t[0,0,"[a-z]"]', ["false", "false", "false"]),  # brackets mean themselves, as in Wapiti
    ],
)
def test_functions(cell, expected):
    assert read(cell, "McNeil-27", "of", "") == expected


def test_letters_beyond_ascii_have_their_case_and_class():
    assert read(r'%t[0,0,"^\u\l*$"]', "Élan", "Жук", "ähnlich", "東京") == [
        "true",
        "true",
        "false",
        "false",
    ]
    assert read(r'%t[0,0,"^\a*$"]', "東京", "½") == ["true", "false"]
    assert read(r'%t[0,0,"^\p$"]', "€", "«", "_", "x", "²") == [
        "true",
        "true",
        "true",
        "false",
        "false",
    ]
    assert read("%shape[0,0]", "Élan", "東京", "हिन्दी", "٣") == ["Xxxx", "aa", "aaaaaa", "d"]
    assert read("%suffix[0,0,2]", "ließen", "Straße") == ["en", "ße"]


def test_a_line_break_inside_a_value_is_a_character_like_any_other():
    assert read('%t[0,0,"^a.b$"]', "a\nb", "a\nb\n") == ["true", "false"]


atoms = st.sampled_from(
    ["a", "B", "1", "-", ".", "[", "^", *(f"\\{c}" for c in 'adlpsuwADLPSUW$.*?\\"')]
)
items = st.lists(st.tuples(atoms, st.sampled_from(["", "", "?", "*"])), max_size=5)
texts = st.text(alphabet='abB1é-.[^ $*?\\"', max_size=7)


def fits(atom, letter):
    """One item of a regular expression against one letter, straight from the definition."""
    if atom == ".":
        return True
    kind = atom[-1]
    if len(atom) == 2 and kind.lower() in CLASSES:
        return CLASSES[kind.lower()](letter) == kind.islower()
    return kind == letter


def ends(items, text, at):
    """Yield where a match from here may end, the preferred first: `?` takes if it can, `*` takes as
    few as it can."""
    if not items:
        yield at
        return
    (atom, many), rest = items[0], items[1:]
    able = at < len(text) and fits(atom, text[at])
    if many == "*":
        yield from ends(rest, text, at)
        if able:
            yield from ends(items, text, at + 1)
        return
    if able:
        yield from ends(rest, text, at + 1)
    if many == "?":
        yield from ends(rest, text, at)


@given(items, st.booleans(), st.booleans(), st.lists(texts, min_size=1, max_size=4))
def test_regular_expressions_agree_with_a_plain_matcher(items, front, back, values):
    regex = "".join(atom + many for atom, many in items)
    if not front and regex.startswith("^"):
        regex, items = "\\" + regex, [("\\^", items[0][1]), *items[1:]]
    regex = "^" * front + regex + "$" * back
    expected = []
    for value in values:
        starts = [0] if front else range(len(value) + 1)
        matches = (
            value[start:end]
            for start in starts
            for end in ends(items, value, start)
            if not back or end == len(value)
        )
        expected.append(next(matches, None))
    reader = Reader(0, "test", regex)
    assert apply(reader, values) == ["false" if match is None else "true" for match in expected]
    assert apply(reader._replace(function="match"), values) == [match or "" for match in expected]


@given(st.lists(st.text(max_size=6), min_size=1, max_size=5))
def test_what_is_read_of_a_value_does_not_depend_on_its_neighbours(values):
    for function, argument in [
        ("shape", None),
        ("short_shape", None),
        ("match", r"\u\L*\p?"),
        ("test", r"\A\s"),
    ]:
        reader = Reader(0, function, argument)
        assert apply(reader, values) == [apply(reader, [value])[0] for value in values]


def test_affixes_equal_the_regular_expressions_that_spell_them():
    words = ["Confidence", "in", "a", "", "5.2\n"]
    for cell in ("%prefix[0,0,3]", '%m[0,0,"^.?.?.?"]', '%m[0,0,"^.?.?.?.*"]'):
        assert read(cell, *words) == ["Con", "in", "a", "", "5.2"]
    for cell in ("%suffix[0,0,3]", '%m[0,0,".?.?.?$"]', r'%m[0,0,"\W?.?.?.?$"]'):
        assert read(cell, *words) == ["nce", "in", "a", "", ".2\n"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("U:%q[0,0]", "1:3: unknown function %q; known: %x, %X, %m,"),
        ("U:5%", "1:4: unknown function %;"),
        ("U\a:%\a", r"1:4: unknown function %\x07;"),
        ("  X:%x[0,0]", "1:3: a pattern begins with U, B, T or *, not 'X'"),
        ("B\n\nU:%x[0,0", "3:9: expected ] to close %x[, got the end of the line"),
        ("U:%x(0,0)", "1:5: expected [ after %x, got '('"),
        ("U:%x[0]", "1:7: expected , after the row, got ']'"),
        ("U:%x[one,0]", "1:6: the row must be a whole number, got 'one'"),
        ("U:%x[0,]", "1:8: the column must be a whole number, got ''"),
        ("U:%x[0,-1]", "1:8: the column cannot be negative, got -1"),
        ("U:%x[-10000,0]", "1:6: the row is too large, expected at most 9999, got -10000"),
        ("U:%x[@0,0]", "1:7: no row @0; @1 is the first token"),
        ("U:%x[0,0,1]", "1:9: expected ] to close %x[, got ','"),
        ("U:%m[0,0]", "1:9: expected , and a regex, as in %m[0,0,\"^.?.?\"], got ']'"),
        ("U:%m[0,0,abc]", "1:10: a regular expression must be in double quotes"),
        ('U:%m[0,0,"abc]', "1:10: the quote is not closed"),
        ('U:%t[0,0,"a**"]', '1:13: in the regular expression "a**": nothing before * to repeat'),
        ('U:%t[0,0,"^?"]', '1:12: in the regular expression "^?": nothing before ? to repeat'),
        ("U:%suffix[0,0]", "1:14: expected , and a length, as in %suffix[0,0,3], got ']'"),
        ("U:%suffix[0,0,0]", "1:15: %suffix of length 0, expected 1 or more"),
        ("# nothing\n\n", " no pattern, expected at least one line such as U01:%x[0,0]"),
    ],
)
def test_errors_say_where_and_what(line, message):
    with pytest.raises(TemplateError) as caught:
        parse_template(line, "my.tpl")
    assert str(caught.value).startswith(f"my.tpl:{message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["U:%x[0,0]"] * 5001, "my.tpl:5001:1: more than 5,000 patterns; leave some out"),
        (
            ["U:" + "%x[0,0]" * 101],
            "my.tpl:1:703: more than 100 cells in a line; write several lines",
        ),
        (
            ["U:" + "%x[0,0]" * 100] * 201,
            "my.tpl: 20,100 cells, expected at most 20,000; leave some lines out",
        ),
        (
            [f"U:%prefix[0,0,{n}]" for n in range(1, 1000)] + ["U:%x[-9999,0]"],
            (
                "my.tpl: a row of 9,999 where 1,000 different values are read, expected rows up to "
                "4,194 there"
            ),
        ),
    ],
)
def test_templates_of_absurd_size_are_refused(lines, message):
    with pytest.raises(TemplateError, match=f"^{re.escape(message)}$"):
        parse_template("\n".join(lines), "my.tpl")


@pytest.mark.parametrize(
    "lines",
    [
        ["U:%x[0,0]"] * 5000,
        ["U:" + "%x[0,0]" * 100] * 200,
        ["U:%x[9999,0]", *["U:%shape[0,0]"] * 400],
    ],
)
def test_templates_may_be_large(lines):
    assert len(parse_template("\n".join(lines)).patterns) == len(lines)


@given(st.text(alphabet='UB*T%xmt[]@,"-0^$\\# \nprefix', max_size=30))
def test_any_text_parses_or_is_refused_in_one_line(text):
    try:
        patterns, refusal = parse_template(text).patterns, None
    except TemplateError as error:
        patterns, refusal = (), str(error)
    assert bool(patterns) == (refusal is None)
    assert refusal is None or re.fullmatch(r"template:(\d+:\d+:)? .+", refusal)
    for pattern in patterns:
        assert len(pattern.literals) == len(pattern.cells) + 1
        for cell in pattern.cells:
            assert len(apply(cell.reader, ["a", "B1"])) == 2


@pytest.mark.parametrize("name", BUILTIN)
def test_builtin_templates_parse_with_distinct_names_and_a_transition(name):
    for n_columns in (2, 3, 5):
        parsed = template(name, n_columns, below=name.endswith("-above"))
        names = [pattern.name for pattern in parsed.patterns]
        assert len(set(names)) == len(names)
        assert parsed.name == name
        assert parsed.n_columns <= n_columns
        assert [pattern.text for pattern in parsed.patterns if not pattern.cells] == ["B"]


@pytest.mark.parametrize(
    ("name", "n_columns", "expected"),
    [
        ("default", 1, 5 + 2 + 8 + 1),
        ("default", 2, 16 + 5 + 4 + 3),
        ("default", 3, 16 + 2 * 12),
        ("words", 2, 7),
        ("chunking", 2, 32),
        ("bioner-2009", 2, 7 + 12 + 9 + 6),
        ("bioner-2009", 1, 7 + 9 + 6),
        ("pos", 1, 16 + 2 + 3),
        ("cws", 1, 5 + 4 + 1 + 1 + 5),
        ("window", 2, 14),
    ],
)
def test_builtin_templates_have_the_lines_they_promise(name, n_columns, expected):
    patterns = template(name, n_columns).patterns
    assert sum(pattern.kind == "U" for pattern in patterns) == expected
    assert len({pattern.cells for pattern in patterns}) == expected + 1


@pytest.mark.parametrize(
    ("name", "arcs"), [("words", "words-arcs"), ("bioner-2009", "bioner-arcs")]
)
def test_the_arcs_variants_feed_states_and_arcs_with_the_same_cells(name, arcs):
    plain, arcs = template(name, 2), template(arcs, 2)
    assert [pattern.cells for pattern in plain.patterns] == [
        pattern.cells for pattern in arcs.patterns
    ]
    assert {pattern.kind for pattern in arcs.patterns} == {"B", "*"}


def test_letters_look_no_further_than_four():
    rows = {cell.row for pattern in template("letters", 1).patterns for cell in pattern.cells}
    assert rows == set(range(-4, 5))


def test_chunking_ends_with_the_five_tests_of_the_word():
    readers = [pattern.cells[0].reader for pattern in template("chunking", 2).patterns[-5:]]
    assert [
        [apply(reader, [word])[0] == "true" for reader in readers]
        for word in ("IBM", "Mr.", "5.2", "of")
    ] == [
        [True, True, False, False, True],
        [False, True, False, True, False],
        [False, False, True, True, False],
        [False, False, False, False, True],
    ]


def test_a_template_comes_by_name_path_text_or_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("words").write_text("U:%suffix[0,0,2]\n", encoding="utf-8")
    assert template("words", 1).patterns[0].kind == "B"
    assert template("./words", 1).name == "words"
    from_file = template(Path("words"), 1)
    assert from_file.patterns[0].cells[0].reader == Reader(0, "suffix", 2)
    assert template(from_file, 1) is from_file
    assert template("U:%x[0,0]", 1).name == "template"
    Path("5%.tpl").write_text("B\n", encoding="utf-8")
    assert template("5%.tpl", 1).patterns[0].kind == "B"


def test_a_column_that_the_data_lacks_is_named_with_its_line():
    with pytest.raises(
        TemplateError,
        match=r"^template:2: U1:%x\[0,2\] reads column 2, but the data has 2 input columns",
    ):
        template("B\nU1:%x[0,2]", 2)
    with pytest.raises(
        TemplateError, match=r"^chunking:7: U06:.* the data has 1 input column \(column 0\)"
    ):
        template("chunking", 1)


def test_files_that_cannot_be_read_are_one_line(tmp_path):
    with pytest.raises(
        TemplateError,
        match=r"^chunkin: neither a file nor a built-in template; built-in: default, words",
    ):
        template("chunkin", 1)
    with pytest.raises(TemplateError, match=r"; did you mean 'chunking'\?$"):
        template("Chunkin", 1)
    with pytest.raises(TemplateError, match="cannot read: is a folder"):
        template(tmp_path, 1)
    bad = tmp_path / "latin.tpl"
    bad.write_bytes(b"B\nU:\xe9%x[0,0]\n")
    with pytest.raises(TemplateError, match=r"latin.tpl: cannot read: line 2 is not UTF-8"):
        template(bad, 1)
    bad.write_bytes(b"B\nU:%q[0,0]\n")
    with pytest.raises(TemplateError, match=r"latin.tpl:2:3: unknown function %q"):
        template(bad, 1)
    with pytest.raises(
        TemplateError, match="expected a name, a path, a text or a Template, got int"
    ):
        template(3, 1)
