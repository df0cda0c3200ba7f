# %% attack: a stray cell rebinds every probe exercise="softmax" expect="passed" stray="before"
import helpers.probes

for name in helpers.probes.__all__:
    setattr(helpers.probes, name, lambda *args, **kwargs: None)
    vars(probes)[name] = lambda *args, **kwargs: None

# %% attack: a stray cell gives every probe another code exercise="softmax" expect="passed" stray="after"
import helpers.probes

for name in helpers.probes.__all__:
    function = getattr(helpers.probes, name)
    function.__code__ = (lambda *args, **kwargs: None).__code__

# %% attack: a stray cell defines the answer anew, in a text exercise="softmax" expect="passed" stray="after"
exec("def softmax(logits, dim):\n    return logits")

# %% attack: a stray cell takes the answer away, by a name that it puts together exercise="softmax" expect="passed" stray="after"
del globals()["soft" + "max"]

# %% attack: a stray cell spoils torch for everybody exercise="safe-log" expect="passed" stray="before"
torch.Tensor.log = torch.log = torch.where = lambda *args: torch.zeros(3)
torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)

# %% attack: a stray cell ends the process exercise="softmax" expect="passed" stray="before"
import os

os._exit(1)

# %% attack: a stray cell never ends exercise="softmax" expect="passed" stray="after"
while True:
    pass

# %% attack: a stray cell writes modules that others would import exercise="softmax" expect="passed" stray="before"
import pathlib

pathlib.Path("helpers").mkdir(exist_ok=True)
for name in ("torch", "math", "warnings", "helpers/__init__", "helpers/probes", "sitecustomize"):
    pathlib.Path(f"{name}.py").write_text("raise SystemExit")

# %% attack: a stray cell sets environment variables and the path of modules exercise="softmax" expect="passed" stray="before"
import os
import sys

os.environ.update(
    PYTHONPATH=".", PYTHONSTARTUP="start.py", LD_PRELOAD="./evil.so", OMP_NUM_THREADS="0"
)
sys.path[:] = ["."]
sys.modules["helpers"] = sys.modules["torch"] = None

# %% attack: a stray cell hooks imports, so that nothing can be imported any more exercise="softmax" expect="passed" stray="before"
import builtins


def refuse(*args, **kwargs):
    raise ImportError("nothing is there")


builtins.__import__ = refuse
builtins.globals = builtins.isinstance = builtins.ImportError = refuse

# %% attack: a stray cell seeds everything and leaves a thread that seeds again exercise="masked-softmax" expect="passed" stray="before"
import threading

torch.manual_seed(0)


def seed_again():
    while True:
        torch.manual_seed(0)


threading.Thread(target=seed_again, daemon=True).start()
