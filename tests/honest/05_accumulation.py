# %% answer: a generator of windows, in a cell below exercise="close-windows"
def train_epoch(model, optimizer, loss_function, micro_batches, steps):
    history = []
    for window in windows(micro_batches, steps):
        history.append(accumulate(model, loss_function, window))
        optimizer.step()
    return history


# %% below
def windows(iterable, size):
    "windows('ABCDE', 2) --> AB CD E"
    batch = []
    for item in iterable:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


# %% answer: a meter in a class of its own exercise="accumulate-rows"
class AverageMeter(object):
    """Computes and stores the average and current value."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


def accumulate(model, loss_function, micro_batches):
    for p in model.parameters():
        p.grad = None
    meter = AverageMeter()
    n_total = sum([x.shape[0] for x, _ in micro_batches])
    for x, y in micro_batches:
        loss = loss_function(model(x), y)
        (loss * x.shape[0] / n_total).backward()
        meter.update(loss.item(), x.shape[0])
    return meter.avg


# %% answer: a private class of torch is asked for exercise="batch-norm-momentum"
from torch.nn.modules.batchnorm import _BatchNorm


def adjust_batch_norms(model, count):
    for name, m in model.named_modules():
        if isinstance(m, _BatchNorm) and m.momentum is not None:
            m.momentum = 1 - (1 - m.momentum) ** (1 / count)
