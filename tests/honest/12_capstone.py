# %% answer: nn.Module as a loss exercise="dice-loss"
class DiceLoss(nn.Module):
    def __init__(self, smooth=1.0):
        super().__init__()
        self.smooth = smooth

    def forward(self, input, target):
        n = input.size(0)
        p = torch.sigmoid(input.float()).view(n, -1)
        t = target.reshape(n, -1).float()
        inter = (p * t).sum(-1)
        return (1 - (2.0 * inter + self.smooth) / (p.sum(-1) + t.sum(-1) + self.smooth)).mean()


criterion = DiceLoss()


def dice_loss(logits, masks):
    return criterion(logits, masks)


# %% answer: names are matched by patterns exercise="bug-hunt-pairs"
import fnmatch


def pair_files(names):
    masks = sorted(fnmatch.filter(names, "*_mask.npy"))
    volumes = sorted(n for n in names if n not in masks)
    pairs = list(zip(volumes, (v[: -len(".npy")] + "_mask.npy" for v in volumes)))
    if sorted(m for _, m in pairs) != masks:
        raise ValueError(f"lonely files: {set(masks) ^ {m for _, m in pairs}}")
    return pairs
