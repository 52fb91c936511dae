"""Changes of a model file: of values, lengths, types and names of its arrays, and of its header.

arrays, fields = opened(content)                  # as they are stored: of format 2 in few bytes
arrays, fields = changed(rng, arrays, fields)     # a few things are different
content = written(arrays, fields)                 # a file with a right checksum
"""

import copy
import json
import warnings

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from labelwright import modelfile
from labelwright.errors import ModelFileError

VALUES = [
    0,
    1,
    -1,
    2,
    3,
    7,
    100,
    2**31 - 1,
    -(2**31),
    2**31,
    2**40,
    2**62,
    2**63 - 1,
    -(2**63),
    1e30,
    -1e30,
    1e-300,
]
FLOATS = [*VALUES, 5e-324, 1e-12, np.nan, np.inf, -np.inf, 0.5, -0.5, 3e38, -3e38, 1e-40, 1e300]
DTYPES = [
    np.int32,
    np.int64,
    np.float32,
    np.float64,
    np.bool_,
    np.uint8,
    np.int8,
    np.float16,
    np.uint16,
    np.uint64,
]
NUMBERS = [
    0,
    1,
    -1,
    2,
    3,
    10**6,
    2**31,
    2**53,
    2**63,
    10**30,
    10**400,
    0.5,
    -0.5,
    1e-9,
    1e300,
    -0.0,
]
NUMBERS += [float("inf"), float("nan")]
JSON = [
    None,
    True,
    False,
    "",
    "x",
    "O",
    "iob2",
    "crf",
    "columns",
    "dicts",
    "é",
    "\ud800",
    "a\nb",
    [],
    [0],
    ["O"],
    {},
]
JSON += [*NUMBERS, {"a": 1}, [[]], [["O", "O"]], {"": None}, "B", "%y[0]", "U:%x[0,0]"]
LINES = [
    "B",
    "U",
    "U:%x[0,0]",
    "U:%x[9,0]/%x[0,1]",
    "U:%x[9999,0]",
    "U:%x[-9999,9999]",
    "U:%x[99999999999,0]",
    "U:%y[0]",
]
LINES += [
    "T:%x[0,0]",
    "*:%each[0,0]",
    "U:%d[0,people]",
    "U:%c[0,brown,9999]",
    "U:%v[0]",
    "U:%n[0,0]",
    "U:%a[0]",
]
LINES += [
    'U:%m[0,0,"(a*)*$"]',
    'U:%m[0,0,".*.*.*.*$"]',
    'U:%t[0,0,"\\"]',
    "U:%suffix[0,0,9999]",
    "U:%",
    "#",
    "B" * 999,
]
KINDS = [
    "CRF",
    "LatentCRF",
    "Perceptron",
    "LatentPerceptron",
    "SemiCRF",
    "Cascade",
    "MemoryTagger",
    "MemoryBased",
]
KINDS += ["LatticeCRF"]
DEPTHS = [1, 3, 50, 900, 100_000]


# -- files -----------------------------------------------------------------------------------------


def opened(content):
    """The arrays and the header of a file, as they are stored."""
    fields = modelfile._header("the file", content)
    arrays = load(content)  # in any order
    return dict(sorted(arrays.items())), {
        name: value for name, value in fields.items() if name != "checksum"
    }


def written(arrays, fields):
    """The bytes of a file with a right checksum; None where there cannot be such a file."""
    try:
        text, checked = (
            _as_text(fields),
            {name: value for name, value in fields.items() if name != "format"},
        )
        checksum = modelfile._checksum(arrays, _without_nests(checked))
        return save(arrays, metadata={modelfile.KEY: f'{{"checksum": "{checksum}", {text[1:]}'})
    except (SafetensorError, UnicodeEncodeError, ModelFileError):
        return None


class Nest(dict):
    """A value in so many lists: JSON that Python reads but cannot write."""

    def __init__(self, depth):
        super().__init__(nest=depth)
        self.depth = depth


def _as_text(fields):
    text = json.dumps(fields)
    for depth in DEPTHS:
        text = text.replace(f'{{"nest": {depth}}}', "[" * depth + "]" * depth)
    return text


def _without_nests(value):
    """The same with lists for shallow nests; that of a deep one has no checksum, so any will do."""
    if isinstance(value, Nest):
        return json.loads("[" * value.depth + "]" * value.depth) if value.depth < 500 else None
    if isinstance(value, dict):
        return {key: _without_nests(item) for key, item in value.items()}
    return [_without_nests(item) for item in value] if isinstance(value, list) else value


def changed(rng, arrays, fields):
    """One to three changes, most of them of arrays."""
    arrays, fields = dict(arrays), copy.deepcopy(fields)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if rng.integers(3) == 0 or not arrays:
                change_header(rng, fields)
            else:
                pick(rng, CHANGES)(rng, arrays)
    return arrays, fields


# -- arrays ----------------------------------------------------------------------------------------


def change_values(rng, arrays):
    """Some values of one array, or all from a place on."""
    name = pick(rng, [name for name, array in arrays.items() if array.size] or list(arrays))
    array = arrays[name].copy()
    if not array.size:
        return
    places = rng.integers(0, array.size, rng.integers(1, 4))
    if rng.integers(8) == 0:
        places = np.arange(places[0], array.size)
    value = _value(rng, arrays, array, int(places[0]))
    for place in places:
        if array.dtype == np.bool_:
            array.view(np.uint8).flat[place] = pick(rng, [0, 1, 1, 0, 2, 255])
        else:
            array.flat[place] = value
            value = value if len(places) > 3 else _value(rng, arrays, array, int(place))
    arrays[name] = array


def _value(rng, arrays, array, place):
    """A value that may be out of range by much, or by one: sizes of other arrays, and what the
    array itself holds."""
    kind = rng.integers(5)
    if kind == 0:
        return array.flat[rng.integers(array.size)]
    if kind == 1:  # a little more or less
        return np.asarray(array.flat[place] + rng.integers(-3, 4)).astype(array.dtype)
    if kind == 2:  # at the end of some array, or of the values of this one
        other = pick(rng, list(arrays.values()))
        value = pick(
            rng, [other.size, other.shape[0] if other.ndim else 0, array.max(), array.min()]
        )
        return np.asarray(value).astype(array.dtype) + np.asarray(rng.integers(-2, 3)).astype(
            array.dtype
        )
    if array.dtype.kind == "f":
        return np.asarray(pick(rng, FLOATS)).astype(array.dtype)
    return np.array(pick(rng, VALUES), np.float64).astype(np.int64).astype(array.dtype)


def change_order(rng, arrays):
    """One array backwards, sorted, rotated or shuffled; or other truth values."""
    name = pick(rng, list(arrays))
    array = arrays[name].reshape(-1)
    orders = [
        array[::-1],
        np.sort(array),
        np.roll(array, 1),
        rng.permutation(array),
        np.zeros_like(array),
    ]
    if array.dtype == np.bool_:
        orders += [rng.random(len(array)) < share for share in (0.1, 0.5, 0.9)]
    arrays[name] = pick(rng, orders).reshape(arrays[name].shape).copy()


def change_length(rng, arrays):
    """One array longer or shorter, or none at all."""
    name = pick(rng, list(arrays))
    array = arrays[name]
    kind = rng.integers(6)
    if kind == 0 or array.ndim == 0:
        del arrays[name]
    elif kind == 1:
        arrays[name] = array[: max(0, len(array) - rng.integers(1, 3))].copy()
    elif kind == 2:
        arrays[name] = np.concatenate([array, array[: rng.integers(1, 3)]])
    elif kind == 3:
        arrays[name] = array[:0].copy()
    elif kind == 4:
        arrays[name] = np.concatenate([array, array])
    else:  # and all arrays of this length
        for other, same in arrays.items():
            if same.ndim and len(same) == len(array) and len(array):
                arrays[other] = same[:-1].copy()


def change_type(rng, arrays):
    """One array of another dtype or shape; arrays of no size may have any length."""
    name = pick(rng, list(arrays))
    array = arrays[name]
    made = [
        array.astype(pick(rng, DTYPES)),
        array.reshape(-1),
        array[None],
        array[..., None],
        array.T.copy(),
    ]
    made.append(np.zeros((int(pick(rng, [1, 10, 10**6, 10**9, 2**40])), 0), array.dtype))
    made.append(np.zeros((0, int(pick(rng, [1, 10, 10**6, 10**9, 2**40]))), array.dtype))
    made.append(np.array(array.reshape(-1)[0] if array.size else 0, array.dtype))
    arrays[name] = np.ascontiguousarray(pick(rng, made)) if rng.integers(8) else pick(rng, made)


def change_swap(rng, arrays):
    """Two arrays of one dtype change places, or one stands for both, or has another name."""
    one = pick(rng, list(arrays))
    other = pick(rng, [name for name, array in arrays.items() if array.dtype == arrays[one].dtype])
    kind = rng.integers(4)
    if kind < 2:
        arrays[one], arrays[other] = arrays[other], arrays[one]
    elif kind == 2:
        arrays[one] = arrays[other]
    else:
        arrays[pick(rng, ["extra", one + ".ptr", "often", "space.arc", "tree.code", ""])] = (
            arrays.pop(one)
        )


def change_text(rng, arrays):
    """Some bytes of a text, or where its strings begin."""
    names = [
        name
        for name, array in arrays.items()
        if name.endswith(".text") and array.ndim == 1 and array.size
    ]
    names = [name for name in names if arrays[name].dtype == np.uint8]
    if not names:
        change_values(rng, arrays)
        return
    name = pick(rng, names)
    text = arrays[name].copy()
    for place in rng.integers(0, len(text), rng.integers(1, 4)):
        text[place] = pick(
            rng,
            [0, 10, 32, 34, 45, 91, 92, 0x80, 0xC3, 0xED, 0xFF, int(text[rng.integers(len(text))])],
        )
    arrays[name] = text


def change_scale(rng, arrays):
    """Mean and deviation of what a column or an array holds, each at an end of its range."""
    names = [name.removesuffix(".mean") for name in arrays if name.endswith(".mean")]
    if not names:
        change_values(rng, arrays)
        return
    name = pick(rng, names)
    for part, ends in (("mean", [-1e30, 0.0, 1e30]), ("deviation", [1e-12, 1.0, 1e30])):
        array = arrays.get(f"{name}.{part}", np.empty(0))
        arrays[f"{name}.{part}"] = np.full_like(array, pick(rng, ends))


CHANGES = [change_values] * 6 + [
    change_order,
    change_length,
    change_type,
    change_swap,
    change_text,
    change_scale,
]


# -- headers ---------------------------------------------------------------------------------------


def change_header(rng, header):
    """One field of the header, however deep."""
    places = list(walk(header))
    kinds = [(owner, key) for owner, key in places if key == "kind" and owner[key] in KINDS]
    if kinds and rng.integers(12) == 0:  # read as a model of another kind
        owner, key = pick(rng, kinds)
        owner[key] = pick(rng, KINDS)
        return
    owner, key = pick(rng, places)
    value, kind = owner[key], rng.integers(7)
    if kind == 0 and isinstance(owner, dict):
        del owner[key]
    elif kind == 1:
        owner[key] = copy.deepcopy(pick(rng, [o[k] for o, k in places]))
    elif kind == 2 and isinstance(value, list | dict) and value:
        _change_members(rng, value)
    elif kind == 3 and type(value) in (int, float):
        owner[key] = pick(rng, [value + 1, value - 1, 2 * value, -value, 10**9, *NUMBERS])
    elif kind < 5 and isinstance(value, str):
        owner[key] = _changed_string(rng, value)
    elif kind == 5 and rng.integers(4) == 0:
        owner[key] = Nest(pick(rng, DEPTHS))
    else:
        owner[key] = copy.deepcopy(pick(rng, JSON))


def _change_members(rng, value):
    """Without one member, with one twice, with a further one, or in another order."""
    kind = rng.integers(4)
    if isinstance(value, dict):
        if kind == 0:
            value[pick(rng, ["", "x", "é", "columns", "kind"])] = copy.deepcopy(pick(rng, JSON))
        else:
            value[pick(rng, list(value))] = copy.deepcopy(pick(rng, JSON))
    elif kind == 0:
        value.pop(rng.integers(len(value)))
    elif kind == 1:
        value.append(copy.deepcopy(pick(rng, value)))
    elif kind == 2:
        value.append(copy.deepcopy(pick(rng, JSON)))
    else:
        value.reverse()


def _changed_string(rng, text):
    """A line more, less or changed, or a piece of it."""
    lines = text.split("\n")
    kind = rng.integers(5)
    if kind == 0:
        lines.insert(rng.integers(len(lines) + 1), pick(rng, LINES))
    elif kind == 1:
        lines[rng.integers(len(lines))] = pick(rng, LINES)
    elif kind == 2:
        lines.pop(rng.integers(len(lines)))
    elif kind == 3:
        lines *= int(pick(rng, [2, 3, 100]))
    elif text:
        place = int(rng.integers(len(text)))
        return (
            text[:place]
            + pick(rng, ["", "9", "]", "[", "%", "\x00", "-", '"', "é"])
            + text[place + 1 :]
        )
    return "\n".join(lines)


def walk(value):
    """All (owner, key) of a JSON value."""
    keys = (
        list(value)
        if isinstance(value, dict)
        else range(len(value))
        if isinstance(value, list)
        else ()
    )
    for key in keys:
        yield value, key
        yield from walk(value[key])


def pick(rng, values):
    return values[int(rng.integers(len(values)))]


# -- bytes -----------------------------------------------------------------------------------------


def changed_bytes(rng, content):
    """A few bytes, words, numbers or lines of a file that has no checksum."""
    for _ in range(rng.choice([1, 1, 2, 4])):
        content = pick(rng, (_other_bytes, _other_word, _other_number, _other_line, _other_length))(
            rng, content
        )
    return content


def _other_bytes(rng, content):
    octets = bytearray(content)
    for place in rng.integers(0, len(octets), rng.integers(1, 4)):
        octets[place] = pick(
            rng, [0, 1, 10, 32, 37, 48, 57, 91, 127, 128, 255, octets[rng.integers(len(octets))]]
        )
    return bytes(octets)


def _other_word(rng, content):
    """Four bytes at a multiple of four, which are a number in CRFsuite's files."""
    at = 4 * int(rng.integers(max(1, min(len(content) // 4, pick(rng, [12, 600, 10**9])))))
    number = pick(
        rng,
        [
            0,
            1,
            2,
            2**31,
            2**32 - 1,
            len(content),
            int.from_bytes(content[at : at + 4], "little") + 1,
        ],
    )
    return content[:at] + (number % 2**32).to_bytes(4, "little") + content[at + 4 :]


def _other_number(rng, content):
    """Digits that are another number."""
    at = int(rng.integers(min(max(1, len(content)), pick(rng, [60, 600, 10**9]))))
    while at < len(content) and not content[at : at + 1].isdigit():
        at += 1
    end = at
    while end < len(content) and content[end : end + 1].isdigit():
        end += 1
    number = pick(
        rng, [b"0", b"1", b"-1", b"99", b"9999999", b"9" * 30, b"1e400", b"nan", b"1.5", b"00", b""]
    )
    return content[:at] + number + content[end:]


def _other_line(rng, content):
    lines = content.split(b"\n")
    one, other = rng.integers(0, len(lines), 2)
    kind = rng.integers(4)
    if kind == 0:
        lines.pop(one)
    elif kind == 1:
        lines.insert(one, lines[other])
    elif kind == 2:
        lines[one], lines[other] = lines[other], lines[one]
    else:
        lines[one] = pick(rng, LINES).encode()
    return b"\n".join(lines)


def _other_length(rng, content):
    return (
        content[: rng.integers(len(content))]
        if rng.integers(3)
        else content + content[: rng.integers(100)]
    )
