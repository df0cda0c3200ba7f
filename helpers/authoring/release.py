"""From a source notebook to the student's copy, by nbgrader's own preprocessors.

The same ones, in the same order, as ``nbgrader generate_assignment`` (nbgrader 0.9,
``nbgrader.converters.GenerateAssignment``) runs, without those that need a
gradebook, a kernel or files that this course does not have. A test holds the two to be equal.
"""

from __future__ import annotations

import copy
from pathlib import Path

from nbformat.notebooknode import NotebookNode
from nbgrader.converters import GenerateAssignment
from nbgrader.preprocessors import IncludeHeaderFooter, InstantiateTests, SaveCells
from traitlets.config import Config, PyFileConfigLoader

_LEFT_OUT = (IncludeHeaderFooter, InstantiateTests, SaveCells)


def make_release(source: NotebookNode, config_file: Path) -> NotebookNode:
    """Return the student's copy of ``source``: no solutions, no hidden tests, no outputs.

    ``config_file`` is the course's ``nbgrader_config.py``.
    """
    config = _load_config(config_file)
    notebook, resources = copy.deepcopy(source), {"metadata": {}}
    resources["nbgrader"] = {}
    for kind in GenerateAssignment.preprocessors.default_args[0]:
        if kind not in _LEFT_OUT:
            notebook, resources = kind(config=config, enabled=True)(notebook, resources)
    return notebook


def _load_config(config_file: Path) -> Config:
    return PyFileConfigLoader(config_file.name, path=str(config_file.parent)).load_config()
