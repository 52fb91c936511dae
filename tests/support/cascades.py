"""The recipe of a small cascade, its input, and its output as rows."""

LAYER = 'template = "words"\nmax_iter = 6\n'
RECIPE = f"""
model = "cascade"
columns = ["word", "pos", "chunk"]
max_iter = 6
random_state = 1
n_jobs = 1
[[layers]]
name = "pos"
{LAYER}
[[layers]]
name = "chunk"
{LAYER}"""
WORDS = b"She\nsaw\nhim\n.\n\n"


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines() if line]
