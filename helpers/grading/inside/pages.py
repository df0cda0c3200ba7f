"""Large pages for the warm process: a fork copies its table of pages, and a large page is one entry
instead of 512. Where the kernel cannot do it, nothing is lost.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

_LARGE = 2 * 2**20
_COLLAPSE = 25  # MADV_COLLAPSE, from Linux 6.1
_WRITABLE_AND_NO_FILE = re.compile(r"^(\w+)-(\w+) rw-p \w+ 00:00 0 *(?:\[heap\])?$", re.MULTILINE)


def make_large() -> None:
    """Put the memory that this process has written into large pages, as far as it goes."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for first, last in _WRITABLE_AND_NO_FILE.findall(maps.read_text()):
        start = -(-int(first, 16) // _LARGE) * _LARGE
        length = int(last, 16) // _LARGE * _LARGE - start
        if length > 0:
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), _COLLAPSE)
