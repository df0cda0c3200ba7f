"""For ``pytest -p pretended_device.plugin``: the device is there before anything imports torch."""

from pretended_device.facts import install

install()
