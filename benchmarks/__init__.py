"""How fast a class is graded, beside plain nbgrader and beside what cannot be saved.

The class is made by the tests' own modules, so it is run from a checkout: ``make bench``.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_TESTS = str(ROOT / "tests")
if _TESTS not in sys.path:
    sys.path.append(_TESTS)
