"""What a model has learnt, as plain dicts; the command line only draws them."""
