"""What workers have loaded when they begin: the server that forks them imports this module.

It is the one module that does something as it is imported, since a fork server offers nothing else.
"""

import gc
import os

from helpers.grading.startup import leave_out_address_grammar

# A pool of threads is no use to what is forked from here.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
leave_out_address_grammar()

gc.disable()  # nothing of what is imported is garbage: to look for some takes a tenth of the time
import helpers.grading.judge.judge  # noqa: E402, F401

gc.freeze()
gc.enable()
