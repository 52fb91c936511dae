"""What requests may say: one table of fields gives the checks and the OpenAPI document."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from labelwright.errors import LabelwrightError, OptionError
from labelwright.wording import did_you_mean

# a part of JSON Schema: type, items, anyOf, minimum, maximum, minItems, maxItems, maxLength,
# description
Schema = dict[str, Any]
MOST_BEST = 100  # labellings of a sentence
MOST_RULES = 50
BOOLEAN: Schema = {"type": "boolean"}
TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer", "minimum": 0}
TOKEN: Schema = {"anyOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1}]}
EXPECTED = {
    "string": "a text",
    "boolean": "true or false",
    "integer": "a whole number",
    "array": "a list",
}
KINDS: dict[str, type] = {"string": str, "boolean": bool, "integer": int, "array": list}

MODEL: Schema = TEXT | {
    "description": "The name of a model; the default model where it is missing."
}
ONE_TEXT: Schema = TEXT | {"description": "A text, which is split into sentences and tokens."}
TOKENS: Schema = {
    "type": "array",
    "items": {"type": "array", "items": TOKEN},
    "description": "Sentences that are split already: lists of words, or of [word, column, ...] "
    "where a model reads several columns.",
}
TAG: dict[str, Schema] = {
    "model": MODEL,
    "text": ONE_TEXT,
    "texts": {"type": "array", "items": TEXT, "description": "Several texts."},
    "tokens": TOKENS,
    "nbest": {
        "type": "integer",
        "minimum": 1,
        "maximum": MOST_BEST,
        "description": "So many labellings of each sentence.",
    },
    "marginals": BOOLEAN | {"description": "The probability of every label at every token."},
    "spans": BOOLEAN | {"description": "Spans with their probabilities.", "default": True},
    "states": BOOLEAN
    | {"description": "The probability of every latent state at every token (latent models)."},
    "decoder": TEXT | {"description": "One of the decoders of the model."},
    "rules": {
        "type": "array",
        "items": TEXT,
        "maxItems": MOST_RULES,
        "description": 'Only labellings that satisfy these rules, as in at_most(2, "PER").',
    },
}
EXPLAIN: dict[str, Schema] = {
    "model": MODEL,
    "text": ONE_TEXT,
    "tokens": TOKENS,
    "sentence": WHOLE | {"description": "Which sentence, from 0.", "default": 0},
    "token": WHOLE | {"description": "Which token of the sentence, from 0."},
}


SENTENCES = "text", "texts", "tokens"  # of which a request has one


class RequestError(LabelwrightError):
    """A request is refused with a status other than 400."""

    def __init__(self, status: int, line: str):
        super().__init__(line)
        self.status = status


class Options(NamedTuple):
    """What is asked about each sentence; requests that ask the same are answered together."""

    nbest: int | None = None
    marginals: bool = False
    spans: bool = True
    states: bool = False
    decoder: str | None = None
    rules: tuple[str, ...] = ()


class Asked(NamedTuple):
    """The sentences of a request: texts, or lists of tokens."""

    texts: list[str] | None
    tokens: list[list[Any]] | None

    @property
    def size(self) -> int:
        """About how much it is, in characters."""
        if self.texts is not None:
            return sum(map(len, self.texts))
        return 6 * sum(map(len, self.tokens or ()))


class Explained(NamedTuple):
    """The token that is to be explained."""

    sentence: int
    token: int


def check_size(sizes: Sequence[int], most: int) -> None:
    """Refuse sentences of more tokens than `most`; an empty one counts as one token."""
    tokens, n = sum(sizes), sum(max(1, size) for size in sizes)
    if n > most:
        what = "tokens" if n == tokens else "tokens and empty sentences"
        raise RequestError(413, f"{n:,} {what}, expected at most {most:,}; send fewer at a time")


def _check_lists(body: Any, most: int) -> None:
    """Refuse what is too large for certain, before anything looks at each token."""
    for name in ("texts", "tokens"):
        sentences = body.get(name) if isinstance(body, dict) else None
        if isinstance(sentences, list):
            sizes = [len(s) if isinstance(s, list) else bool(s) for s in sentences]
            check_size(sizes, most)


def tag_request(body: Any, max_tokens: int) -> tuple[str | None, Asked, Options]:
    """The model, the sentences and the options of a request for labels."""
    _check_lists(body, max_tokens)
    given = checked(body, TAG)
    options = {name: given[name] for name in Options._fields if name in given}
    if "rules" in options:
        options["rules"] = tuple(options["rules"])
    return given.get("model"), sentences_of(given, TAG), Options(**options)


def explain_request(body: Any, max_tokens: int) -> tuple[str | None, Asked, Explained]:
    """The model, the sentences and the token of a request for an explanation."""
    _check_lists(body, max_tokens)
    given = checked(body, EXPLAIN)
    if "token" not in given:
        raise OptionError("token: missing; give the number of a token, from 0")
    return (
        given.get("model"),
        sentences_of(given, EXPLAIN),
        Explained(given.get("sentence", 0), given["token"]),
    )


def sentences_of(given: Mapping[str, Any], fields: Mapping[str, Schema]) -> Asked:
    some = [name for name in SENTENCES if name in given]
    if len(some) != 1:
        got = f"got {' and '.join(some)}" if some else "got none of them"
        raise OptionError(
            f"expected one of {', '.join(name for name in SENTENCES if name in fields)}, {got}"
        )
    if "tokens" in given:
        return Asked(None, given["tokens"])
    return Asked([given["text"]] if "text" in given else given["texts"], None)


def checked(body: Any, fields: Mapping[str, Schema]) -> dict[str, Any]:
    """The fields of a body that are not null; whatever does not fit the table is refused.

    >>> checked({"nbest": 0}, TAG)
    Traceback (most recent call last):
    labelwright.errors.OptionError: nbest: expected a whole number from 1 to 100, got 0
    """
    if not isinstance(body, dict):
        raise OptionError(f"expected a JSON object, got {_shown(body)}")
    for name in body:
        if name not in fields:
            raise OptionError(f"unknown key {name[:40]!r}{did_you_mean(name[:40], fields) or ''}")
    given = {name: value for name, value in body.items() if value is not None}
    for name, value in given.items():
        _check(value, fields[name], name)
    return given


def _check(value: Any, schema: Schema, place: str) -> None:
    if not _fits(value, schema):
        raise OptionError(f"{place}: expected {_expected(schema)}, got {_shown(value)}")
    if isinstance(value, list) and "items" in schema:
        items = schema["items"]
        if items is TEXT and all(type(each) is str for each in value):
            return
        if items is TOKEN and all(type(each) is str for each in value):  # the usual case
            return
        for number, each in enumerate(value):
            _check(each, items, f"{place}[{number}]")


def _fits(value: Any, schema: Schema) -> bool:
    if not schema:  # whatever it is
        return True
    if "anyOf" in schema:
        return any(
            _fits(value, each) and (each is TEXT or _all_fit(value, each["items"]))
            for each in schema["anyOf"]
        )
    if type(value) is not KINDS[schema["type"]]:
        return False
    if type(value) is int:
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", 2**31))
    return not isinstance(value, list) or len(value) <= schema.get("maxItems", len(value))


def _all_fit(values: list[Any], schema: Schema) -> bool:
    return bool(values) and all(_fits(each, schema) for each in values)


def _expected(schema: Schema) -> str:
    if "anyOf" in schema:
        return "a word, or a list of a word and further columns"
    what = EXPECTED[schema["type"]]
    if "maximum" in schema:
        return f"{what} from {schema['minimum']} to {schema['maximum']}"
    if "minimum" in schema:
        return f"{what} of {schema['minimum']} or more"
    return f"{what} of at most {schema['maxItems']}" if "maxItems" in schema else what


def _shown(value: Any) -> str:
    """A value of JSON in short."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else f"a list of {len(value)}"
    return "null" if value is None else f"{value!r:.40}"


# -- the OpenAPI document --------------------------------------------------------------------------


def described(fields: Mapping[str, Schema], *required: str) -> dict[str, Any]:
    """The body of a request, as OpenAPI has it."""
    properties = {
        name: {"anyOf": [{**schema}, {"type": "null"}]} if name not in required else {**schema}
        for name, schema in fields.items()
    }
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    sentences = [name for name in SENTENCES if name in fields]
    schema["oneOf"] = [
        {"required": [name], "properties": {name: {**fields[name]}}} for name in sentences
    ]
    if required:
        schema["required"] = list(required)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


NUMBER: Schema = {"type": "number"}
PERHAPS: Schema = {"anyOf": [NUMBER, {"type": "null"}]}
PLACE: Schema = {"anyOf": [WHOLE, {"type": "null"}]}
ROWS: Schema = _list({"type": "object", "additionalProperties": NUMBER})
SPAN = _object(
    label=TEXT, first=WHOLE, last=WHOLE, start=PLACE, end=PLACE, text=TEXT, probability=PERHAPS
)
SENTENCE = _object(
    text={"anyOf": [TEXT, {"type": "null"}]},
    document=WHOLE,
    start=PLACE,
    end=PLACE,
    tokens=_list(_object(text=TEXT, start=PLACE, end=PLACE)),
    labels=_list(TEXT),
    probability=PERHAPS,
    log_probability=PERHAPS,
    confidence=PERHAPS,
    exact=BOOLEAN,
    gap=PERHAPS,
    spans=_list(SPAN),
    nbest=_list(_object(labels=_list(TEXT), probability=PERHAPS, score=PERHAPS, spans=_list(SPAN))),
    marginals=ROWS,
    states=ROWS,
)
TAGGED = _object(model=TEXT, sentences=_list(SENTENCE))
ONE_MODEL = _object(
    name=TEXT,
    kind=TEXT,
    labels=_list(TEXT),
    decoders=_list(TEXT),
    probabilities=BOOLEAN,
    latent=BOOLEAN,
    columns=_list(TEXT),
    description=TEXT,
)
MODELS = _object(default=TEXT, models=_list(ONE_MODEL))
HEALTH = _object(status=TEXT, version=TEXT, models=_list({"type": "object"}))
ERROR = _object(error=TEXT)
REFUSALS = {
    400: "The request is wrong.",
    401: "The token is missing or wrong.",
    404: "There is no such model.",
    408: "The request did not come whole in time.",
    413: "The request is too large.",
    503: "Too many requests wait, or it took too long.",
}


def answers(schema: Schema, *statuses: int) -> dict[int | str, dict[str, Any]]:
    """The responses of a route: its answer, and refusals with these statuses."""
    listed: dict[int | str, dict[str, Any]] = {
        200: {"description": "The answer.", "content": {"application/json": {"schema": schema}}}
    }
    for status in statuses:
        content = {"application/json": {"schema": ERROR}}
        listed[status] = {"description": REFUSALS[status], "content": content}
    return listed
