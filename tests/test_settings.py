"""Settings: what a declaration in a constructor brings about, and the kinds of values."""

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
from command import one_line

from labelwright import CRF, modelfile
from labelwright.errors import OptionError
from labelwright.settings import (
    Above,
    AtLeast,
    AtMost,
    Below,
    Flag,
    Help,
    OneOf,
    Place,
    Signed,
    settings_of,
)
from labelwright.taggers import registry
from labelwright.taggers.declared import LOG_LINEAR, chosen, declared

OWN = declared(
    sharpness=(float, 1.0, "Multiply all weights by X.", Above(0), Signed(), Flag("--sharp"))
)


class Sharper(CRF):
    """A CRF with one more setting: here is its declaration, and in fit its use."""

    _declared = chosen(" ".join(["sharpness", *settings_of(CRF)]), LOG_LINEAR | OWN)

    def fit(self, X, y=None, **options):
        super().fit(X, y, **options)
        self.weights_ = self.weights_ * np.float32(self.sharpness)
        return self


@pytest.fixture
def sharper():
    registry.register("sharper", f"{__name__}:Sharper")
    yield
    del registry.TAGGERS["sharper"]


def test_a_new_setting_is_checked_and_documented() -> None:
    with pytest.raises(OptionError, match=r"^sharpness: expected a number above 0, got 0$"):
        Sharper(sharpness=0).fit([["a"]], [["A"]])
    assert Sharper(sharpness=2.0).get_params()["sharpness"] == 2.0
    assert repr(Sharper(sharpness=2.0)) == "Sharper(sharpness=2.0)"
    assert "sharpness : Multiply all weights by X. [default: 1]" in Sharper.__doc__


def test_a_new_setting_is_an_option_a_key_and_signed(
    run, sharper, data: Path, tmp_path: Path
) -> None:
    train = ["train", data / "train.txt", "-o", tmp_path / "m", "--model", "sharper"]
    fast = ["--template", "words", "--iterations", 2, "--threads", 1, "-q"]
    assert run(*train, *fast, "--sharp", 2) == (0, "", "")
    signature = modelfile.read(tmp_path / "m")[1]["signature"]
    assert "|sharpness:2.0|" in signature
    assert "Settings of sharper: --sharp X Multiply all weights by X. [default: 1]" in " ".join(
        run("train", "--model", "sharper", "--help")[1].split()
    )
    (tmp_path / "r.toml").write_text("sharpness = 3.0\n")
    assert run(*train, *fast, "--recipe", tmp_path / "r.toml") == (0, "", "")
    assert "|sharpness:3.0|" in modelfile.read(tmp_path / "m")[1]["signature"]
    one_line(run(*train, "--sharp", -1)[2], "--sharp: expected a number above 0, got -1.0")
    (tmp_path / "r.toml").write_text("sharpness = 0\n")
    one_line(
        run(*train, "--recipe", tmp_path / "r.toml")[2],
        "r.toml: sharpness: expected a number above 0, got 0",
    )
    one_line(
        run(*train[:-1], "crf", "--sharp", 1)[2], "--sharp: not for --model crf, only for sharper"
    )


def declare(
    whole: Annotated[int, AtLeast(1), AtMost(9)] = 1,
    share: Annotated[float, AtLeast(0), Below(1)] = 0.5,
    order: Annotated[int, OneOf(1, 2)] = 1,
    name: Annotated[str, OneOf("one", "two")] = "one",
    switch: bool = False,
    anything: object = None,
    later: "int | None" = None,
) -> None:
    """Settings of several kinds."""


@pytest.mark.parametrize(
    ("name", "good", "bad", "message"),
    [
        (
            "whole",
            [1, 9, np.int32(3)],
            [0, 10, 1.0, True, "1", None],
            "a whole number of 1 or more and of 9 or less",
        ),
        (
            "share",
            [0, 0.5, np.float32(0.25)],
            [-1, 1, float("nan"), True, "x"],
            "a number of 0 or more and below 1",
        ),
        ("order", [1, 2, np.int64(2)], [0, 3, True, "1", 1.0], "1 or 2"),
        ("name", ["one"], ["three", 1, None], "one of one, two"),
        ("switch", [True, np.bool_(False)], [1, "no", None], "true or false"),
        ("later", [None, 3], ["x", 1.5], "a whole number"),
        ("anything", [None, 3, object()], [], ""),
    ],
)
def test_kinds_of_values(name: str, good: list[object], bad: list[object], message: str) -> None:
    setting = settings_of(declare)[name]
    for value in good:
        setting.check(value)
    for value in bad:
        with pytest.raises(OptionError) as error:
            setting.check(value, "place")
        assert str(error.value) == f"place: expected {message}, got {value!r}"
        if value is not None:
            with pytest.raises(OptionError, match=r"^r\.toml: key: expected"):
                setting.from_recipe(value, Place("r.toml: key"))


def test_texts_of_options() -> None:
    settings = settings_of(declare)
    assert [
        settings[name].parsed(text)
        for name, text in {"whole": "3", "share": "0", "order": "2"}.items()
    ] == [
        3,
        0,
        2,
    ]
    with pytest.raises(
        OptionError,
        match=r"^--whole: expected a whole number of 1 or more and of 9 or less, got 'x'$",
    ):
        settings["whole"].parsed("x")


@pytest.mark.parametrize("name", registry.tagger_names())
def test_every_setting_has_a_sentence_and_a_sound_default(name: str) -> None:
    kind = registry.model_class(name)
    parameters = inspect.signature(kind).parameters
    for setting in settings_of(kind).values():
        assert setting.marker(Help) is not None, setting.name
        assert setting.required or parameters[setting.name].default is setting.default
        if not setting.required:
            setting.check(setting.default)


def test_the_help_of_train_imports_no_tagger_and_fits_three_screens() -> None:
    script = (
        "import sys; from labelwright.cli import main; code = main(['train', '--help']); "
        "bad = {'numpy', 'rich', 'safetensors', 'scipy', 'sklearn'} & set(sys.modules); "
        "sys.exit(code or str(sorted(bad)) * bool(bad) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") <= 72
    assert [
        line for line in done.stdout.splitlines() if line.endswith(":") and not line.startswith(" ")
    ] == [
        "Data:",
        "Features:",
        "Training:",
        "Settings of crf:",
        "Output:",
    ]


def test_the_signature_of_a_tagger_can_be_read() -> None:
    shown = str(inspect.signature(CRF))
    assert "l2: float = 1.0" in shown
    assert "Annotated" not in shown
