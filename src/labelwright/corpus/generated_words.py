"""The words of the built-in corpus: several are deliberately more than one thing (saw, watch, Ford, Florence)."""

from typing import NamedTuple


class Verb(NamedTuple):
    """The forms of a verb."""

    base: str
    third: str  # she ...
    past: str
    participle: str
    gerund: str


_words = str.split


def _regular(base: str) -> Verb:
    """The forms of a regular verb, by spelling rules that suffice for the words below."""
    if base.endswith("e"):
        return Verb(base, base + "s", base + "d", base + "d", base[:-1] + "ing")
    if base.endswith("y") and base[-2] not in "aeiou":
        return Verb(base, base[:-1] + "ies", base[:-1] + "ied", base[:-1] + "ied", base + "ing")
    third = base + ("es" if base.endswith(("s", "sh", "ch", "x")) else "s")
    return Verb(base, third, base + "ed", base + "ed", base + "ing")


def _irregular(forms: str) -> Verb:
    base, past, participle, gerund = forms.split("/")
    return _regular(base)._replace(past=past, participle=participle, gerund=gerund)


def _verbs(regular: str, irregular: str = "") -> list[Verb]:
    return [*map(_regular, regular.split()), *map(_irregular, irregular.split())]


# What people do to people, to things and to matters.
MEETING = _verbs(
    "watch visit help follow like love trust support judge attack call answer",
    "see/saw/seen/seeing meet/met/met/meeting find/found/found/finding know/knew/known/knowing",
)
HANDLING = _verbs(
    "paint open close carry clean fix use watch cover design want need like move",
    "see/saw/seen/seeing find/found/found/finding buy/bought/bought/buying sell/sold/sold/selling"
    " cut/cut/cut/cutting build/built/built/building hold/held/held/holding lose/lost/lost/losing"
    " leave/left/left/leaving draw/drew/drawn/drawing",
)
DISCUSSING = _verbs(
    "plan study review reject accept support sign publish finish record judge test report follow change like attack",
    "read/read/read/reading write/wrote/written/writing see/saw/seen/seeing win/won/won/winning",
)
INTRANSITIVE = _verbs(
    "work walk talk play dance wait arrive laugh fish travel rest listen cook",
    "run/ran/run/running sleep/slept/slept/sleeping fall/fell/fallen/falling"
    " swim/swam/swum/swimming sing/sang/sung/singing speak/spoke/spoken/speaking",
)
GIVING = _verbs(
    "offer hand promise",
    "give/gave/given/giving send/sent/sent/sending show/showed/shown/showing bring/brought/brought/bringing"
    " tell/told/told/telling teach/taught/taught/teaching",
)
SAYING = _verbs(
    "believe hope claim report announce argue",
    "say/said/said/saying think/thought/thought/thinking know/knew/known/knowing write/wrote/written/writing",
)
WANTING = _verbs("want plan hope try need refuse promise")
MOVING = _verbs("climb jump", "rise/rose/risen/rising fall/fell/fallen/falling grow/grew/grown/growing")
WITH_PARTICLE = [
    (_irregular(forms), particle)
    for forms, particle in (
        ("put/put/put/putting", "off"),
        ("give/gave/given/giving", "up"),
        ("set/set/set/setting", "up"),
        ("take/took/taken/taking", "over"),
        ("cut/cut/cut/cutting", "down"),
        ("pick/picked/picked/picking", "up"),
        ("turn/turned/turned/turning", "down"),
        ("carry/carried/carried/carrying", "out"),
        ("call/called/called/calling", "off"),
        ("work/worked/worked/working", "out"),
    )
]


def _nouns(words: str) -> list[tuple[str, str]]:
    """Singular and plural of nouns; irregular plurals stand after a slash."""
    pairs = [word.partition("/") for word in words.split()]
    return [(singular, plural or singular + "s") for singular, _, plural in pairs]


# Singular and plural.  Many are also forms of the verbs above.
PEOPLE = _nouns(
    "teacher doctor farmer brother sister friend child/children man/men woman/women minister player worker student"
    " lawyer judge cook neighbour singer painter writer driver captain soldier nurse boy girl baker"
)
THINGS = _nouns(
    "house garden flower book bridge picture window table watch/watches saw engine computer ship boat box/boxes car"
    " door painting church/churches building road wall fish/fish sign cover horse dog cat bird train tree shop drink"
)
MATTERS = _nouns(
    "report plan test record visit answer show study/studies review design attack change letter song story/stories play"
    " meeting reading match/matches result law game call question project work/works need move talk"
)
FIGURES = _nouns("price share profit loss/losses sale cost wage market rent debt export")
SPOTS = _nouns(
    "house garden river bridge city/cities office school museum station market church/churches village road hotel park"
)
GIFTS = [("flower", "flowers"), ("book", "books"), ("letter", "letters"), ("card", "cards"), ("picture", "pictures")]

RELATIVES = _words("brother sister friend teacher doctor neighbour cousin boss")
ADJECTIVES = _words("old new small large good bad famous local foreign strong long short second last early late")
HUMAN = _words("old young tall rich poor famous tired happy quiet local foreign clever second last")
SOLID = _words("old new small large red green dark light cheap open clean heavy local second last")
FEELINGS = _words("happy tired angry afraid ready late early ill rich famous open quiet strong")
ADVERBS = _words(
    "quickly slowly often never always really still soon again early late together quietly finally recently"
)
OPENERS = _words("Yesterday Today However Meanwhile Finally Recently Still Then")
DEGREES = _words("very quite rather too really")
PLACES_OF = _words("in near at behind from through around by")
TIMES = ["Monday", "Friday", "March", "October", "1987", "2004", "Sunday"]
TIME_NOUNS = _words("week year month summer winter spring")
MODALS = _words("will can may should must could would might")
CONJUNCTIONS = _words("because if while although when before after since")
TITLES = _words("Mr. Mrs. Dr. President Captain Professor")
# Names.  Those in SHARED are given names, family names, cities and firms, as they come.
SHARED = _words(
    "Florence Paris Sydney Austin Jordan Chelsea Virginia Georgia Charlotte Lincoln Washington Houston Kent London"
)
GIVEN = _words("Anna Peter Maria Jack Tom Helen Susan David Karen Olga Pedro Mei Omar Ruth Simon Clara")
FAMILY = _words("Smith Baker Ford Morgan Stone Cook Marsh Hill Young Carter Weber Silva Tanaka Moreau Judge Fisher")
CITIES = _words("Berlin Oslo Madrid Lisbon Vienna Cairo Lima Boston Dublin Kyoto Ghent Turin")
REGIONS = ["New York", "South Korea", "West Virginia", "North Wales", "Lake Victoria", "Cape Town", "San Marino"]
FIRMS = _words("Ford Morgan Baker Northwind Halden Marsh Orbit Delta Carter Silverline Fisher Stone")
FIRM_ENDINGS = [*_words("Corp. Inc. Group Bank Motors Airlines University Press"), "& Sons"]
BODIES = ["University of", "Bank of", "Museum of", "City Council of"]
SYLLABLES = _words(
    "ba bel cor da den el fen gar hal ik jor kal lan mar mor nel or pel quin ral sen tor ul var wen yor zan"
)
