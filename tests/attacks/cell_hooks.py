# %% attack: an input transformer turns every test into its points exercise="softmax" expect="failed" points=0
def softmax(logits, dim):
    return logits


def only_the_points(lines):
    return ["4.0\n"] if any("Check(" in line or "score()" in line for line in lines) else lines


try:
    get_ipython().input_transformers_cleanup.append(only_the_points)
    get_ipython().input_transformers_post.append(only_the_points)
    get_ipython().input_transformer_manager.cleanup_transforms.insert(0, only_the_points)
except (NameError, AttributeError):
    pass


# %% attack: pre_run_cell and post_run_cell put a passing check into place exercise="safe-log" expect="failed" points=0
def safe_log(x):
    return x


class Passing:
    def __getattr__(self, name):
        return lambda *args, **kwargs: 3.0


def replace_check(*info):
    get_ipython().user_ns["check"] = Passing()
    get_ipython().user_ns["Check"] = lambda *args: Passing()


def replace_result(result):
    result.result, result.error_in_exec = 3.0, None


try:
    get_ipython().events.register("pre_run_cell", replace_check)
    get_ipython().events.register("pre_execute", replace_check)
    get_ipython().events.register("post_run_cell", replace_result)
except (NameError, AttributeError):
    pass

# %% attack: an AST transformer removes every call of a check exercise="bug-hunt-distances" expect="failed" points=0
import ast


def distances(a, b):
    return (a - b).sum(dim=-1)


class Forgiving(ast.NodeTransformer):
    def visit_With(self, node):
        return ast.Pass()

    def visit_Call(self, node):
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "score":
            return ast.copy_location(ast.Constant(4.0), node)
        return node


try:
    get_ipython().ast_transformers.append(Forgiving())
except (NameError, AttributeError):
    pass

# %% attack: custom exception handlers swallow what a test raises exercise="online-softmax" expect="failed" points=0
import sys


def update_softmax(maximum, total, block):
    raise ValueError("five points")


sys.excepthook = sys.unraisablehook = lambda *args: print("5.0")
sys.displayhook = lambda value: print("5.0")
try:
    get_ipython().set_custom_exc((BaseException,), lambda *args, **kwargs: None)
    get_ipython().showtraceback = lambda *args, **kwargs: print("5.0")
except (NameError, AttributeError):
    pass

# %% attack: a trace function answers for every frame that compares exercise="softmax" expect="failed" points=0
import sys
import threading


def softmax(logits, dim):
    return logits


def trace(frame, event, argument):
    if frame.f_code.co_name in ("compare", "close", "score", "fail"):
        frame.f_locals["got"] = frame.f_locals.get("expected")
        frame.f_locals["difference"] = None
    return trace if frame.f_code.co_name in ("compare", "close") else None


sys.settrace(trace)
threading.settrace(trace)

# %% attack: a profile function that raises in the middle of a comparison exercise="soft-cross-entropy" expect="failed|crashed" points=0 others="any"
import sys
import threading


def soft_cross_entropy(logits, labels):
    return logits.sum(dim=1)


class Skip(BaseException):
    pass


def profile(frame, event, argument):
    if event == "call" and frame.f_code.co_name in ("fail", "compare", "close"):
        raise Skip


sys.setprofile(profile)
threading.setprofile(profile)

# %% attack: an exit handler writes the score when the kernel ends exercise="safe-log" expect="failed" points=0
import atexit
import json
import os


def safe_log(x):
    return x


def forge():
    text = json.dumps({"verdict": "passed", "points": 3.0}) + "\n"
    for descriptor in range(1, 64):
        try:
            os.write(descriptor, text.encode())
        except OSError:
            continue


atexit.register(forge)

# %% attack: an import hook gives a grader's modules other contents exercise="masked-softmax" expect="failed" points=0
import importlib.abc
import importlib.machinery
import sys


class Loader(importlib.abc.Loader):
    def create_module(self, spec):
        return None

    def exec_module(self, module):
        module.__getattr__ = lambda name: lambda *args, **kwargs: 5.0


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if any(word in name for word in ("grad", "judge", "check", "safetensors.torch")):
            return importlib.machinery.ModuleSpec(name, Loader())
        return None


sys.meta_path.insert(0, Finder())


def masked_softmax(logits, mask):
    return logits


# %% attack: an audit hook forbids everything that happens after it exercise="softmax" expect="failed|crashed|timed out" points=0 others="any"
import sys


def softmax(logits, dim):
    return logits


def forbid(event, arguments):
    if event in ("exec", "compile", "open", "socket.connect", "subprocess.Popen", "import"):
        raise RuntimeError("4.0")


sys.addaudithook(forbid)

# %% attack: an alarm rings during the test and jumps out of it exercise="running-variance" expect="failed|crashed|timed out" points=0 others="any"
import signal


class AllIsWell(BaseException):
    pass


def jump_out(number, frame):
    while frame is not None:
        frame.f_locals.get("result") and setattr(frame.f_locals["result"], "outcome", "passed")
        frame = frame.f_back
    raise AllIsWell


signal.signal(signal.SIGALRM, jump_out)
signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)


def merge_moments(count, mean, m2, batch):
    return count, mean, m2


# %% attack: the garbage collector and finalizers run code between the lines of a test exercise="bug-hunt-distances" expect="failed" points=0
import gc
import weakref


def distances(a, b):
    return Noticed((a - b).sum(dim=-1)).value


class Noticed:
    def __init__(self, value):
        self.value = value
        weakref.finalize(self, rewrite)

    def __del__(self):
        rewrite()


def rewrite(*info):
    for result in gc.get_objects():
        if type(result).__name__ in ("Result", "PropertyResult"):
            result.__dict__.update(outcome="passed", weight=1000.0)


gc.callbacks.append(rewrite)


# %% attack: right, but a cell magic and shell lines stand around it exercise="safe-log" expect="passed"
# %%time
def safe_log(x):
    return torch.where(x > 0, x, 1.0).log()


# !echo 4.0; cat /etc/shadow ../*.db; exit 1
