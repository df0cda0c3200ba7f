"""A pytest plugin: one Chromium for all tests that look at a page."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from system_packages import find_program

_SECONDS = 30  # that a page may take; a busy machine needs more than Playwright's five
_QUIET = ("--disable-gpu", "--disable-background-networking", "--disable-component-update")


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """Return a headless Chromium, driven by Playwright."""
    playwright = pytest.importorskip("playwright.sync_api")
    playwright.expect.set_options(timeout=_SECONDS * 1000)
    # Chromium's own sandbox does not start for root.
    arguments = [*_QUIET, "--no-sandbox"] if os.geteuid() == 0 else list(_QUIET)
    with playwright.sync_playwright() as engine:
        path = find_program("chromium-headless-shell")
        program = engine.chromium.launch(executable_path=path, args=arguments)
        yield program
        program.close()
