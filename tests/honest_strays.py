"""Cells that students leave anywhere in a notebook; none of them is part of an answer.

``NAME`` stands for what the exercise above has defined. Most were run once and forgotten; some
fail, loop for ever or end the kernel, as they do when a notebook is run from its top.
"""

from __future__ import annotations

STRAYS = {
    # The machine
    "nvidia-smi": "!nvidia-smi",
    "nvidia-smi with options": "!nvidia-smi --query-gpu=name,memory.total --format=csv | tail -n 1",
    "pip in a shell": "!pip install tqdm",
    "pip as a magic": "%pip install --quiet --upgrade torchinfo",
    "a folder, cloned": "!git clone https://example.org/a/course.git && cd course && ls",
    "a file, downloaded": "!wget -q https://example.org/data.zip\n!unzip -o data.zip -d data",
    "bash": "%%bash\nnvidia-smi\necho $CUDA_HOME\nfor i in 1 2 3; do sleep 1; done",
    "a file, written by a magic": "%%writefile notes.txt\nsoftmax: subtract the maximum first",
    "a module, written by a magic": "%%writefile utils.py\ndef seed(n):\n    return n",
    "a shell's output": "files = !ls\nprint(files)",
    "the environment": "%env CUDA_VISIBLE_DEVICES=0",
    "an environment variable": 'import os\nos.environ["CUDA_LAUNCH_BLOCKING"] = "1"',
    "which device": """
import torch
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
if torch.cuda.is_available():
    torch.cuda.empty_cache()
    print(torch.cuda.get_device_name(0), torch.cuda.memory_allocated() / 2**20)
print(f"{device=}", torch.__version__)
""",
    "Colab's drive": 'from google.colab import drive\ndrive.mount("/content/drive")',
    "Colab, if it is there": """
try:
    from google.colab import drive
    drive.mount("/content/drive", force_remount=True)
    IN_COLAB = True
except ImportError:
    IN_COLAB = False
""",
    "the folder above": 'import sys\nsys.path.append("..")\nsys.path.insert(0, "/content")',
    "a change of folder": "%cd ..\nimport os\nos.chdir('/content/drive/MyDrive/course')",
    # The notebook
    "matplotlib, inline": "%matplotlib inline\n%config InlineBackend.figure_format = 'retina'",
    "autoreload": "%load_ext autoreload\n%autoreload 2",
    "who": "%who\n%whos tensor",
    "a question": "NAME?",
    "a question for the source": "??NAME",
    "a reset": "%reset -f",
    "a profile": "%prun NAME",
    "TensorBoard": "%load_ext tensorboard\n%tensorboard --logdir runs",
    "another notebook": "%run helpers.ipynb",
    "a debugger": "%debug\nimport pdb\npdb.set_trace()\nbreakpoint()",
    "a shell, by name": 'get_ipython().run_line_magic("matplotlib", "inline")',
    "every value is shown": """
from IPython.core.interactiveshell import InteractiveShell
InteractiveShell.ast_node_interactivity = "all"
""",
    "output, cleared": "from IPython.display import clear_output, HTML\nclear_output(wait=True)\n"
    "HTML('<b>done</b>')",
    "display": "from IPython import display\ndisplay.display(display.Markdown('**done**'))",
    "widgets": """
import ipywidgets as widgets
from ipywidgets import interact
@interact(n=widgets.IntSlider(min=1, max=9))
def show(n):
    print(n)
""",
    "exit": "exit()",
    "quit": "import sys\nsys.exit(0)",
    # Measuring
    "a cell's time": "%%time\ntotal = 0\nfor i in range(10):\n    total += i",
    "a line's time": "%timeit NAME",
    "a cell's times": "%%timeit -n 3\nsum(range(100))",
    "a cell, captured": "%%capture out\nprint('nobody sees it')",
    "a pause": "import time\ntime.sleep(3)",
    "a clock": """
import time
start = time.time()
for step in range(3):
    pass
print(f"took {time.time() - start:.2f}s")
""",
    "memory": "import gc, sys\ngc.collect()\nprint(sys.getsizeof([1, 2, 3]))",
    "memory, traced": """
import tracemalloc, psutil
tracemalloc.start()
print(psutil.virtual_memory().percent, tracemalloc.take_snapshot())
""",
    "threads": """
import threading, subprocess
threading.Thread(target=print, args=("hello",)).start()
print(subprocess.run(["nvidia-smi"], capture_output=True))
""",
    # Other libraries
    "pandas": 'import pandas as pd\npd.DataFrame({"loss": [1.0, 0.5]}).plot()',
    "seaborn": 'import seaborn as sns\nsns.set_theme(style="whitegrid")',
    "tqdm": "from tqdm import tqdm\nfor epoch in tqdm(range(3)):\n    pass",
    "scipy": "import scipy\nfrom scipy import stats\nprint(scipy.special.softmax([1.0, 2.0]))",
    "sklearn": "from sklearn.metrics import accuracy_score\naccuracy_score([1, 0], [1, 1])",
    "a run, logged": 'import wandb\nwandb.init(project="course")',
    "a module of one's own": "from utils import seed\nseed(0)",
    "all of math": "from math import *\nprint(sqrt(2))",
    "all of torch's data": "from torch.utils.data import *\nprint(DataLoader)",
    # Settings
    "torch prints": "import torch\ntorch.set_printoptions(precision=4, sci_mode=False)",
    "a seed": "import random, numpy as np, torch\nrandom.seed(0)\nnp.random.seed(0)\n"
    "torch.manual_seed(0)",
    "another default dtype": "import torch\ntorch.set_default_dtype(torch.float64)",
    "a default device": 'import torch\ntorch.set_default_device("cpu")',
    "no gradients": "import torch\ntorch.set_grad_enabled(False)",
    "anomalies": "import torch\ntorch.autograd.set_detect_anomaly(True)",
    "a style": 'import matplotlib.pyplot as plt\nplt.style.use("ggplot")',
    "larger figures": 'import matplotlib.pyplot as plt\nplt.rcParams["figure.figsize"] = (12, 4)',
    "no warnings": 'import warnings\nwarnings.filterwarnings("ignore")',
    "a log": """
import logging
logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(message)s")
logging.getLogger("matplotlib").setLevel(logging.WARNING)
logging.info("start")
""",
    # Files
    "a figure, saved": """
import os
import matplotlib.pyplot as plt
os.makedirs("runs", exist_ok=True)
fig, ax = plt.subplots(figsize=(6, 4))
ax.plot([1, 2, 3], [3, 2, 1], label="loss")
ax.legend()
fig.savefig("runs/loss.png", dpi=150, bbox_inches="tight")
plt.show()
""",
    "a text": 'open("log.txt", "w").write("epoch 1")',
    "a pickle": """
import pickle
with open("state.pkl", "wb") as file:
    pickle.dump({"epoch": 1}, file)
with open("state.pkl", "rb") as file:
    print(pickle.load(file))
""",
    "a checkpoint": 'import torch\ntorch.save({"w": torch.ones(2)}, "w.pt")\n'
    'print(torch.load("w.pt"))',
    # What fails
    "a division by zero": "print(1 / 0)",
    "a name that is gone": "print(result_of_a_deleted_cell.shape)",
    "half a line": "def test_it(x:\n    return",
    "half a thought": "the gradient should be (p - y) / n ???",
    "an endless loop": "while True:\n    pass",
    "a question to the reader": 'answer = input("continue?")',
    "a name, deleted": "x = 1\ndel x\ndel y_that_was_never_there",
    # Trying it out
    "an assertion": "assert callable(NAME)\nprint('ok')",
    "a try": """
try:
    NAME()
except TypeError as error:
    print("as expected:", error)
except Exception:
    import traceback
    traceback.print_exc()
""",
    "numpy's assertion": "import numpy as np\nnp.testing.assert_allclose(np.ones(2), [1.0, 1.0])",
    "torch's assertion": "import torch\ntorch.testing.assert_close(torch.ones(2), torch.ones(2))",
    "a test case": """
import unittest

class TestAnswer(unittest.TestCase):
    def setUp(self):
        self.answer = NAME

    def test_it_can_be_called(self):
        self.assertTrue(callable(self.answer))

unittest.main(argv=[""], exit=False)
""",
    "a doctest": "import doctest\ndoctest.testmod(verbose=True)",
    "what it says": "print(NAME.__doc__)\nhelp(NAME)\nimport inspect\n"
    "print(inspect.getsource(NAME))",
    "compiled": "import torch\nfast = torch.compile(NAME)\nprint(fast)",
    "kept under another name": "my_answer = NAME\nprint(my_answer)",
    "what there is": "print(sorted(globals())[:3], locals().keys(), vars().keys(), dir())",
    "text, evaluated": "for name in ('sum', 'mean'):\n    print(eval(f'torch.{name}'))",
    # Older attempts
    "a first version": "def NAME_v1(*args):\n    # wrong for large numbers\n    return args[0]",
    "commented out": "# def NAME(x):\n#     return x\n# print(NAME(1))",
    "notes in a string": '"""\nMy notes.\nThe maximum goes first; see page 3.\n"""',
    "other names": "x, y, i, j, k, n, out, res, tmp, model, loss = [None] * 11",
    "a class": """
class Net(torch.nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.fc = torch.nn.Linear(3, 3)

    def forward(self, input):
        return self.fc(input)

net = Net()
net(torch.randn(2, 3)).sum().backward()
print(net.fc.weight.grad)
""",
    "a hook": "import torch\nlayer = torch.nn.Linear(2, 2)\n"
    "layer.register_forward_hook(lambda *_: print('here'))\nlayer(torch.ones(2))",
    "nothing": "",
    "a comment": "# what now?",
    "in Chinese": "# 测试一下\n结果 = 3\nprint('结果是', 结果, '🎉')",
}  # fmt: skip
