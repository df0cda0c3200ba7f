"""nbgrader's configuration for this course: used by its commands when run from this folder."""

from pathlib import Path

c = get_config()

here = Path(__file__).resolve().parent if "__file__" in globals() else Path.cwd()

c.CourseDirectory.course_id = "bits-and-gradients"
c.CourseDirectory.root = str(here)
# A notebook is all that a student hands in; caches and hidden files stay out.
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", ".*"]

# Used by nbgrader's own release and collect commands, where students share this machine.
c.Exchange.root = str(here / "exchange")

c.ClearSolutions.code_stub = {
    "python": "# Your code here, in place of the next line.\n"
    'raise NotImplementedError("nothing is written here yet")'
}

# An endless loop costs its own cell: it is interrupted, and the rest is graded. A check stops a
# student's function by itself, after 10 seconds for each call.
c.Execute.timeout = 90
c.Execute.interrupt_on_timeout = True
# How long an interrupted cell may take to end. After nbgrader's own four seconds the whole
# submission would not be graded, and on a busy machine a cell can take longer.
c.Execute.iopub_timeout = 60
# The first is nbgrader's own default; the second keeps a kernel's remarks about its own network
# connection out of the terminal.
c.Execute.extra_arguments = [
    "--HistoryManager.hist_file=:memory:",
    "--IPKernelApp.log_level=ERROR",
]

# Feedback shows what students wrote: without this, a page would run the scripts in it.
c.HTMLExporter.sanitize_html = True
