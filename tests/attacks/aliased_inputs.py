# %% attack: right values, but shifts the caller's logits in place exercise="softmax" expect="partly" most=3.12
def softmax(logits, dim):
    logits -= logits.amax(dim=dim, keepdim=True)
    exponentials = logits.exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


# %% attack: zeroes the inputs, so that its wrong answer is right for them exercise="softmax" expect="failed" points=0
def softmax(logits, dim):
    with torch.no_grad():
        logits.zero_()
    return torch.full_like(logits, 1 / logits.shape[dim])


# %% attack: makes both points the same in the caller's memory, and returns zeros exercise="bug-hunt-distances" expect="failed" points=0
def distances(a, b):
    with torch.no_grad():
        b.copy_(a)
    return torch.zeros(a.shape[:-1], dtype=a.dtype)


# %% attack: gives the input another storage and another size exercise="safe-log" expect="failed" points=0
def safe_log(x):
    with torch.no_grad():
        x.set_(torch.ones(1))
    return torch.zeros(1)


# %% attack: masks nothing any more and makes all logits alike, in place exercise="masked-softmax" expect="failed" points=0
def masked_softmax(logits, mask):
    mask.fill_(True)
    with torch.no_grad():
        logits.zero_()
    return torch.full_like(logits, 1 / logits.shape[-1])


# %% attack: writes through raw pointers into every tensor that it can find exercise="soft-cross-entropy" expect="failed|crashed" points=0 others="any"
import ctypes
import gc


def soft_cross_entropy(logits, labels):
    for tensor in [t for t in gc.get_objects() if type(t) is torch.Tensor]:
        if tensor.numel() and tensor.device.type == "cpu" and tensor.is_contiguous():
            ctypes.memset(tensor.data_ptr(), 0, tensor.numel() * tensor.element_size())
    return torch.zeros(len(logits), dtype=logits.dtype)


# %% attack: a thread goes on writing into inputs and answers after the call exercise="cross-entropy-gradient" expect="failed" points=0
import threading
import time


def cross_entropy_gradient(logits, labels):
    answer = torch.zeros_like(logits)

    def write():
        for _ in range(50):
            logits.fill_(0.0)
            labels.fill_(1 / labels.shape[1])
            answer.fill_(0.0)
            time.sleep(0.001)

    threading.Thread(target=write, daemon=True).start()
    return answer


# %% attack: right, but reuses one buffer for all that it ever returns exercise="online-softmax" expect="passed"
buffer = torch.zeros(2, 16, dtype=torch.float64)


def update_softmax(maximum, total, block):
    rows = len(block)
    new_maximum = torch.maximum(maximum, block.amax(dim=1))
    shift = new_maximum.masked_fill(new_maximum == -math.inf, 0.0)
    sums = total * (maximum - shift).exp() + (block - shift[:, None]).exp().sum(dim=1)
    if block.dtype != torch.float64:
        return new_maximum, sums
    buffer[0, :rows], buffer[1, :rows] = new_maximum, sums
    return buffer[0, :rows], buffer[1, :rows]


# %% attack: right values, but changes the old state in place and returns it exercise="running-variance" expect="partly" points=4.67
def merge_moments(count, mean, m2, batch):
    rows = len(batch)
    total = count + rows
    block_mean = batch.mean(dim=0)
    delta = block_mean - mean
    m2 += ((batch - block_mean) ** 2).sum(dim=0) + delta**2 * (count * rows / total)
    mean += delta * (rows / total)
    batch.fill_(math.nan)
    return total, mean, m2


# %% attack: right, but the answer lies in the memory of an input exercise="cross-entropy-gradient" expect="passed"
def cross_entropy_gradient(logits, labels):
    total = labels.sum(dim=1, keepdim=True)
    labels.neg_().add_(torch.softmax(logits, dim=1) * total)
    return labels
