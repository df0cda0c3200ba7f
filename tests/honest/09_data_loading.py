# %% answer: a path library and a property exercise="picture-folder"
import os
from glob import glob


class PictureFolder(Dataset):
    def __init__(self, folder, pattern="*.png"):
        self._files = sorted(glob(os.path.join(str(folder), pattern)))

    @property
    def files(self):
        return self._files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, id):
        path = Path(self.files[id])
        return read_png(path), label_in(path.name)


# %% answer: collate helpers of one's own exercise="pad-batch"
from torch.nn.utils.rnn import pad_sequence


def pad_batch(samples):
    lens = [len(s) for s in samples]
    padded = pad_sequence(samples, batch_first=True)
    mask = torch.zeros(len(lens), max(lens), dtype=torch.bool)
    for i, n in enumerate(lens):
        mask[i, :n] = True
    return padded, mask
