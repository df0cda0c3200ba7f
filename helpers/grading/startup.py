"""What makes the programs of grading start sooner."""

from __future__ import annotations

import sys


def leave_out_address_grammar() -> None:
    """Keep jsonschema, which nbformat imports, from building its grammar of internet addresses.

    That is two seconds of work, for a format that no notebook has. jsonschema goes without the
    package where it is not installed; so call this before the first import of nbformat.
    """
    sys.modules.setdefault("rfc3987_syntax", None)
