"""Fuzzers: odd inputs and made files, a few in the tests, any number from the command line."""
