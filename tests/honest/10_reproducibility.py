# %% answer: as it stands in every repository exercise="seed-everything"
import os
import random

import numpy as np


def seed_everything(seed: int = 42) -> None:
    random.seed(seed)
    os.environ["PYTHONHASHSEED"] = str(seed)
    np.random.seed(seed % (2**32))
    torch.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed(seed)
        torch.cuda.manual_seed_all(seed)


# %% answer: a temporary file beside it exercise="save-safely"
import tempfile
from pathlib import Path


def save_safely(write, path):
    target = Path(path)
    fd, tmp = tempfile.mkstemp(dir=target.parent, prefix=target.name)
    os.close(fd)
    try:
        write(tmp)
        os.replace(tmp, target)
    except BaseException:
        os.unlink(tmp)
        raise
