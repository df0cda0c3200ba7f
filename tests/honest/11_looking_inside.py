# %% answer: tables are read by the standard library exercise="parse-report"
import csv
import io
import re

NUMBER = re.compile(r"^(\d+(?:\.\d+)?)(?: \S+)?$")


def _convert(s):
    s = s.strip()
    if s == "N/A" or re.fullmatch(r"\[.*\]", s):
        return None
    m = NUMBER.match(s)
    if not m:
        return s
    return float(m[1]) if "." in m[1] else int(m[1])


def parse_report(text):
    rows = [r for r in csv.reader(io.StringIO(text.strip())) if r]
    if not rows or rows[0][0].startswith("No devices"):
        return []
    head = [re.sub(r" \[.*", "", h.strip()) for h in rows[0]]
    return [{k: _convert(v) for k, v in zip(head, row)} for row in rows[1:]]


# %% answer: hooks in a class with a stack of handles exercise="costliest-layer"
from contextlib import ExitStack


class FlopCounter:
    def __init__(self, model):
        self.flops = {}
        self.stack = ExitStack()
        for name, m in model.named_modules():
            if type(m) in (nn.Linear, nn.Conv2d):
                self.flops[name] = 0
                h = m.register_forward_hook(self._hook(name))
                self.stack.callback(h.remove)

    def _hook(self, name):
        def hook(module, input, output):
            self.flops[name] += 2 * output.numel() * module.weight[0].numel()

        return hook

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stack.close()


def layer_flops(model, x):
    with FlopCounter(model) as counter, torch.inference_mode():
        model(x)
    return counter.flops


# %% answer: the mean of what was collected exercise="bug-hunt-growing"
from collections import deque
from statistics import fmean


def mean_loss(model, batches):
    losses = deque(maxlen=100_000)
    with torch.no_grad():
        for i, (x, y) in enumerate(batches):
            losses.append(functional.mse_loss(model(x), y).detach().cpu().item())
    return fmean(losses) if losses else 0.0
