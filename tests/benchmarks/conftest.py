"""Flower is imported once, before warnings become errors: its own imports use names that Click has deprecated."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import flwr.cli.build
    import flwr.clientapp
    import flwr.serverapp
    import flwr.supercore.control  # noqa: F401
