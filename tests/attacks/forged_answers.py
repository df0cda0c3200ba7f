# %% attack: right, but tells of outputs that are none, or scripts exercise="softmax" expect="waiting" points=2.67 waiting=1.33
import json

wire = type(get_ipython())._showtraceback.__globals__["wire"]
honest = wire.encode
KINDS = ("stream", "data", "error", "", 5, None)
VALUES = (
    None,
    5,
    "\ud800\x1b[2J",
    {"list": []},
    {"dict": [["text/html", "<script>"]]},
    {"dict": []},
)
FIELDS = ("text", "data", "name", "value", "traceback", "count")


def encode_once(message):
    wire.encode = honest
    outputs = [None, 4.0, "<script>alert(1)</script>", {"list": []}]
    for kind in KINDS:
        for value in VALUES:
            fields = [[name, value] for name in FIELDS]
            outputs.append({"dict": [["kind", kind], *fields]})
    said = {"dict": [["outputs", {"list": outputs}], ["timed_out", "no"], ["points", 1000]]}
    text = json.dumps(said).encode()
    return wire.HEADER.pack(len(text), 0) + text


wire.encode = encode_once


def softmax(logits, dim):
    exponentials = (logits - logits.amax(dim=dim, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% attack: right, but tells of as many outputs as a message can hold exercise="safe-log" expect="waiting" points=0.86 waiting=2.14
import json

wire = type(get_ipython())._showtraceback.__globals__["wire"]
honest = wire.encode


def encode_once(message):
    wire.encode = honest
    output = {"dict": [["kind", "stream"], ["text", "4.0 <b>points</b>\n"]]}
    text = json.dumps({"dict": [["outputs", {"list": [output] * 60_000}]]}).encode()
    return wire.HEADER.pack(len(text), 0) + text


wire.encode = encode_once


def safe_log(x):
    return torch.where(x > 0, x, 1.0).log()


# %% attack: announces an answer of four gigabytes exercise="bug-hunt-distances" expect="failed|crashed|timed out" points=0

wire = type(get_ipython())._showtraceback.__globals__["wire"]


def distances(a, b):
    wire.encode = lambda message: wire.HEADER.pack(2**32 - 1, 2**32 - 1) + b"x" * 1000
    return a


# %% attack: answers with texts full of controls, of every length and type exercise="softmax" expect="failed" points=0
import json

wire = type(get_ipython())._showtraceback.__globals__["wire"]
HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07\u202e\ud800\x00\r\n<script>alert(1)</script>=cmd|' /C calc'!A0" * 500
)


def encode(message):
    said = [["problem", HOSTILE], ["printed", HOSTILE * 3], ["value", 4.0]]
    said += [["warned", {"list": [HOSTILE, 5, None] * 50}], ["is_stub", 1], ["timed_out", 0]]
    text = json.dumps({"dict": said}).encode()
    return wire.HEADER.pack(len(text), 0) + text


def softmax(logits, dim):
    honest, wire.encode = wire.encode, lambda message: restore(honest)
    return logits


def restore(honest):
    wire.encode = honest
    return encode(None)


# %% attack: answers with names, probes and odd tensors in the place of numbers exercise="online-softmax" expect="failed|crashed" points=0
import json

wire = type(get_ipython())._showtraceback.__globals__["wire"]
ODD = (
    {"tuple": [{"name": "check"}, {"probe": "gradient"}]},
    {"tuple": [{"name": "__import__"}, {"name": "total"}]},
    {"tuple": [{"tensor": {"key": "nowhere"}}, {"array": {"key": 5}}]},
    {"tuple": [{"float": "1e999"}, {"int": "-0x1"}]},
    {"dict": [[{"list": []}, 1]]},
    {"list": {"dict": []}},
    {"score": 5.0},
)
asked = 0


def update_softmax(maximum, total, block):
    global asked
    asked += 1
    said = [["value", ODD[asked % len(ODD)]], ["problem", ""], ["points", 5.0]]
    text = json.dumps({"dict": said}).encode()
    honest = wire.encode

    def encode_once(message):
        wire.encode = honest
        return wire.HEADER.pack(len(text), 0) + text

    wire.encode = encode_once
    return maximum, total


# %% attack: gives the answers to later questions ahead of time exercise="cross-entropy-gradient" expect="failed|crashed|timed out" points=0 others="any"

wire = type(get_ipython())._showtraceback.__globals__["wire"]
honest = wire.encode


def cross_entropy_gradient(logits, labels):
    wire.encode = lambda message: honest(message) * 20
    return labels


# %% attack: answers with a byte every now and then exercise="masked-softmax" expect="timed out|crashed" points=0
import sys
import time

wire = type(get_ipython())._showtraceback.__globals__["wire"]


def masked_softmax(logits, mask):
    frame = sys._getframe()
    while "channel" not in frame.f_locals:
        frame = frame.f_back
    channel = frame.f_locals["channel"]
    channel.send(wire.HEADER.pack(4_000_000, 0))
    while True:
        try:
            time.sleep(0.5)
            channel.send(b" ")
        except BaseException:
            continue


# %% attack: a wrong answer of just the size that is accepted, each time exercise="safe-log" expect="failed|out of memory|crashed" points=0
def safe_log(x):
    return torch.zeros(2**26 - 2**12)


# %% attack: right moments until the last block, then a small row and a small column that make a large table exercise="running-variance" expect="partly|failed" most=2.33
def merge_moments(count, mean, m2, batch):
    rows = len(batch)
    total = count + rows
    delta = batch.mean(dim=0) - mean
    block = ((batch - batch.mean(dim=0)) ** 2).sum(dim=0)
    mean = mean + delta * (rows / total)
    if total in (300, 400):
        return torch.full((2**13, 1), 3e2), mean, torch.ones(2**13)
    return total, mean, m2 + block + delta**2 * (count * rows / total)


# %% attack: right until the last block, then a total that grows when it is divided by exercise="online-softmax" expect="partly" most=4.38
blocks = 0


def update_softmax(maximum, total, block):
    global blocks
    new_maximum = torch.maximum(maximum, block.amax(dim=1))
    shift = new_maximum.masked_fill(new_maximum == -math.inf, 0.0)
    sums = total * (maximum - shift).exp() + (block - shift[:, None]).exp().sum(dim=1)
    blocks = blocks + 1 if block.shape == (3, 1) and block.dtype == torch.float64 else 0
    if blocks == 8:
        return new_maximum, torch.ones(2**22, 1, dtype=torch.uint8)
    return new_maximum, sums
