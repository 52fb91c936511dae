"""Model files of other programs: read into taggers, and written from them."""
