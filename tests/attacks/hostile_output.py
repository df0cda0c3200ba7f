# %% attack: prints and displays full points instead of computing exercise="softmax" expect="failed" points=0
def softmax(logits, dim):
    print("4.0\nExercise 1 · Softmax along a dimension   4 of 4 points\n  ✓ all of it")
    return logits


print('{"verdict": "passed", "points": 4.0}')
try:
    from IPython.display import HTML, display

    display(HTML('<div class="bits-report"><b>4 of 4 points</b></div>'))
    display({"text/plain": "4.0"}, raw=True)
except ImportError:
    pass
4.0


# %% attack: returns its points instead of an answer exercise="safe-log" expect="failed" points=0
def safe_log(x):
    return 3.0


# %% attack: right, but its outputs are scripts and frames exercise="bug-hunt-distances" expect="waiting" points=1.14 waiting=2.86
def distances(a, b):
    print("<script>alert(1)</script><img src=x onerror=alert(2)>")
    return torch.linalg.vector_norm(a - b, dim=-1)


try:
    from IPython.display import HTML, SVG, IFrame, Javascript, Markdown, display

    display(HTML("<script>document.body.innerHTML = '4 of 4 points'</script>"))
    display(Javascript("alert(1)"), Markdown("[a](javascript:alert(1)) <script>x</script>"))
    display(SVG("<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'></svg>"))
    display(IFrame("javascript:alert(1)", 10, 10))
except ImportError:
    pass
print("</script><script>alert(3)</script>")


# %% attack: terminal escapes, bells, nulls and turned text in its error exercise="softmax" expect="failed" points=0
def softmax(logits, dim):
    text = "\x1b]0;owned\x07\x1b[2J\x1b[1;1H\x1b[32mPASSED\x1b[0m\x00\x9b31m\u202e4/4\u2066\r\n\x08"
    print(text)
    raise ValueError(text)


# %% attack: an error with a lying name, of several lines, that cannot be shown exercise="safe-log" expect="failed" points=0
Forged = type("passed\n✓ 3 of 3 points\x1b[2K", (Exception,), {})


class UnshowableError(Exception):
    def __str__(self):
        raise Forged

    __repr__ = __str__


def safe_log(x):
    if x.dim() == 2 and x.shape[0] == 4:
        raise UnshowableError
    raise Forged("=1+cmd|'/C calc'!A0")


# %% attack: half characters in what it prints, returns and raises exercise="masked-softmax" expect="failed" points=0
def masked_softmax(logits, mask):
    try:
        print("\ud800\udfff \udcff")
    except UnicodeError:
        pass
    if logits.shape[0] == 4:
        return {"\ud800": "\udfff", "verdict": "passed"}
    raise ValueError("\ud83d half of a face")


# %% attack: right, but warns in a forged category with a hostile text exercise="online-softmax" expect="passed"
import warnings as warnings_module

Category = type("5 of 5 points\x1b[1A", (UserWarning,), {})


def update_softmax(maximum, total, block):
    for number in range(2_000):
        warnings_module.warn(f"<script>{number}</script>\x1b[2J\x00", Category, stacklevel=1)
    new_maximum = torch.maximum(maximum, block.amax(dim=1))
    shift = new_maximum.masked_fill(new_maximum == -math.inf, 0.0)
    rescaled = total * (maximum - shift).exp()
    return new_maximum, rescaled + (block - shift[:, None]).exp().sum(dim=1)


# %% attack: right, but publishes data that are no data exercise="soft-cross-entropy" expect="waiting" points=3.11 waiting=0.89
def soft_cross_entropy(logits, labels):
    logs = torch.log_softmax(logits, dim=1).masked_fill(labels == 0, 0.0)
    return -(labels * logs).sum(dim=1)


try:
    from IPython.display import publish_display_data

    for data in (
        {"text/plain": {"deep": ["x"] * 1000}},
        {"application/json": {"a": "\ud800"}, "text/html": None, "": ""},
        {"application/vnd.jupyter.widget-view+json": {"model_id": "../../x"}},
        {5: object(), "image/png": "no picture", "text/latex": "\\input{/etc/passwd}"},
        {"text/plain": "4.0\x00\x1b[2J", "application/javascript": "alert(1)"},
    ):
        try:
            publish_display_data(data, metadata={"isolated": True})
        except Exception:
            continue
except ImportError:
    pass


# %% attack: right, but speaks to the front end: payloads, comms, pages, cleared outputs exercise="cross-entropy-gradient" expect="waiting" points=3.43 waiting=0.57
def cross_entropy_gradient(logits, labels):
    return torch.softmax(logits, dim=1) * labels.sum(dim=1, keepdim=True) - labels


try:
    shell = get_ipython()
    shell.set_next_input("4.0", replace=True)
    shell.payload_manager.write_payload({"source": "set_next_input", "text": "4.0"})
    shell.run_line_magic("pinfo", "torch")
    from IPython.display import clear_output, display, update_display

    display("4.0", display_id="score")
    update_display("1000.0", display_id="score")
    clear_output()
except Exception:
    pass

# %% attack: asks for input, which nobody can give exercise="running-variance" expect="failed|crashed" points=0
secret = input("How many points do you give me? ")


def merge_moments(count, mean, m2, batch):
    return count, mean, m2


# %% attack: an error that chains ten thousand others exercise="bug-hunt-distances" expect="failed" points=0
def distances(a, b):
    error = ValueError("4.0")
    for number in range(10_000):
        above = ValueError(f"passed {number}")
        above.__cause__ = error
        error = above
    raise error


# %% attack: raises when it is defined, with a forged traceback exercise="softmax" expect="failed|crashed" points=0
class Passed(Exception):  # noqa: N818
    def _render_traceback_(self):
        return ["4.0", "Exercise 1: 4 of 4 points", "\x1b[2J" * 1000]


raise Passed("4.0")
