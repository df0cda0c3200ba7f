"""Every topic that a reader may come for is found by the book's own search."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytestmark = pytest.mark.needs_system("chromium-headless-shell")

# What is typed, and a chapter, or a page for looking up, that has to be among the results.
TOPICS = {
    # tensors and modules
    "tensor rank": "00",
    "matrix product": "00",
    "from_numpy": "00",
    "autograd grad": "00",
    "polynomial fit": "00",
    "own module": "00",
    "Sequential": "names",
    "count parameters": "00",
    "named_parameters": "topics",
    "model summary": "11",
    "torchviz": "11",
    "dtype table": "11",
    "set_default_dtype": "names",
    "named tensors": "11",
    "type promotion": "11",
    # shapes and speed
    "broadcasting": "07",
    "tile concatenate": "07",
    "overloaded operators": "topics",
    "slicing unbind": "07",
    "batch gather": "07",
    "TorchScript": "topics",
    "torch.compile": "07",
    # normalization
    "batch norm": "01",
    "layer norm": "01",
    "instance norm": "01",
    "group norm": "01",
    "patch size": "01",
    # precision
    "mixed precision": "03",
    "half precision": "topics",
    "underflow": "08",
    "rounding error": "02",
    "master weights": "02",
    "loss scaling": "04",
    "autocast": "03",
    "autocast nested": "topics",
    "autocast backward": "03",
    "checkerboard": "03",
    "GradScaler": "04",
    "unscale": "04",
    "nan gradients": "04",
    # memory
    "gradient accumulation": "05",
    "gradient clipping": "05",
    "learning rate decay": "topics",
    "activation checkpointing": "06",
    "recomputation": "06",
    "out of memory": "11",
    "empty_cache": "names",
    # numerical stability
    "numerical stability": "08",
    "softmax": "08",
    "cross entropy": "08",
    "nextafter": "08",
    # data
    "own dataset": "09",
    "IterableDataset": "09",
    "prefetch": "09",
    # the machine, and running again
    "random seed": "10",
    "cudnn benchmark": "10",
    "version": "10",
    "nvidia-smi": "11",
    "UUID": "11",
    "persistence mode": "11",
    "CUDA_VISIBLE_DEVICES": "11",
    "Colab": "introduction",
}


@pytest.fixture(scope="module")
def page(browser, served_book: str) -> Iterator[object]:
    page = browser.new_page()
    page.goto(f"{served_book}/index.html")
    page.locator("main").press("s")
    yield page
    page.close()


@pytest.mark.parametrize(("typed", "chapter"), TOPICS.items(), ids=TOPICS)
def test_a_topic_is_found_by_the_search(page, served_book: str, typed: str, chapter: str) -> None:
    book = served_book.rpartition("/")[2]
    page.get_by_label("Search this book").fill(typed)
    page.wait_for_function(
        "typed => document.querySelector('#bits-search [role=status]').innerText.includes(typed)",
        arg=f"“{typed}”",
    )
    found = page.eval_on_selector_all(
        "#bits-search a", "links => links.map(a => a.getAttribute('href'))"
    )
    pages = [link.partition(f"/{book}/")[2] for link in found]
    assert [name for name in pages if name.startswith(chapter)], found
