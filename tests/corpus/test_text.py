"""Words as running text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelwright.corpus.tokenizer import joined_text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], ""),
        (["Ada"], "Ada"),
        (["Ada", "Lovelace", "'s"], "Ada Lovelace 's"),
        (["中", "国", "人", "民"], "中国人民"),
        (["北京", "大学", "。"], "北京大学。"),
        (["「", "東京", "タワー", "」", "へ"], "「東京タワー」へ"),
        (["ＩＢＭ", "公司"], "ＩＢＭ公司"),  # noqa: RUF001 (full-width letters)
        (["กรุงเทพ", "มหานคร"], "กรุงเทพมหานคร"),
        (["한국", "사람"], "한국 사람"),
        (["在", "IBM", "工", "作"], "在 IBM 工作"),
        (["𠀀", "𠀁"], "𠀀𠀁"),  # beyond the basic plane
        (["", "a", ""], " a "),
    ],
)
def test_spaces_where_the_script_has_them(words, text):
    assert joined_text(words) == text


@given(st.lists(st.text("ab, .-1é", max_size=3), max_size=5))
def test_other_scripts_are_joined_by_spaces(words):
    assert joined_text(words) == " ".join(words)


@given(st.lists(st.text("中国ア。", min_size=1, max_size=3), max_size=5))
def test_nothing_is_between_words_without_spaces(words):
    assert joined_text(words) == "".join(words)
