"""The error that ends a benchmark."""


class BenchmarkError(Exception):
    """Something did not do what is to be measured; the text is the one sentence to read."""
