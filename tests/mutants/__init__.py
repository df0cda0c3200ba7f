"""Which single changes of the reference solutions does a check let pass?

``mutmut`` and ``cosmic-ray`` change a package's modules and start a test command for each change.
A solution is a cell of a chapter, and to load torch takes longer than most checks: here each
changed solution runs in a fork of a process that has run all cells before it.
"""
