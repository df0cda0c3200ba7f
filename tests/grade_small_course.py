"""A run over a small course as a program of its own, for tests that kill it or press Ctrl-C.

``python grade_small_course.py COURSE [SCHEDULER]`` prints a line for every submission that is done.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]


def main() -> None:
    import small_course

    course = Path(sys.argv[1])
    summary = small_course.run(
        course,
        scheduler=sys.argv[2] if len(sys.argv) > 2 else None,
        report=lambda progress: print(progress.done, flush=True),
    )
    print("interrupted" if summary.interrupted else "finished", len(summary.left), flush=True)


if __name__ == "__main__":
    main()
