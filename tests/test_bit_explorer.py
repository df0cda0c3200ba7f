"""The bit explorer's arithmetic is torch's; and its picture stands where nothing can run."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
import torch
from course_files import ROOT, source
from hypothesis import given
from hypothesis import strategies as st

from helpers import explore_bits
from helpers.explorables import stage
from helpers.explorables.bits import (
    UnknownFormatError,
    _draw_beside,
    draw_static,
    find_bits,
    find_start,
)

FORMATS = {
    "float16": torch.int16,
    "bfloat16": torch.int16,
    "float8_e4m3fn": torch.uint8,
    "float8_e5m2": torch.uint8,
}
FORMATS_SHOWN = ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
# What JSON cannot carry is written as a word on the way out of the browser.
WRITE = "value => Number.isFinite(value) && !Object.is(value, -0) ? value : String(value)"
EXPOSE = "\nwindow.explorer = { decode, encode, neighbors, parse, compare };\n"


@pytest.fixture(scope="module")
def ask(browser):
    """Return a function that runs JavaScript beside the explorer's module, in Chromium."""
    page = browser.new_page()
    module = stage.read_module("bits")
    page.set_content("<p>a page</p>")
    page.add_script_tag(type="module", content=module + EXPOSE)
    page.wait_for_function("() => window.explorer")
    yield lambda code, argument=None: page.evaluate(code, argument)
    page.close()


def decode_all(ask, format: str, patterns: list[int]) -> torch.Tensor:
    values = ask(
        f"""([format, patterns]) => {{
            const write = {WRITE};
            const read = bits => explorer.decode(format, bits).value;
            return patterns.map(bits => Object.is(read(bits), -0) ? '-0' : write(read(bits)));
        }}""",
        [format, patterns],
    )
    words = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan, "-0": -0.0}
    return torch.tensor([words.get(value, value) for value in values], dtype=torch.float64)


def encode_all(ask, format: str, values: torch.Tensor) -> torch.Tensor:
    words = [value if math.isfinite(value) else str(value) for value in values.tolist()]
    zeros = [
        i for i, value in enumerate(values.tolist()) if value == 0 and math.copysign(1, value) < 0
    ]
    bits = ask(
        """([format, values, zeros]) => {
            const words = { inf: Infinity, '-inf': -Infinity, nan: NaN };
            const minus = new Set(zeros);
            return values.map((value, i) => explorer.encode(
                format, minus.has(i) ? -0 : typeof value === 'string' ? words[value] : value));
        }""",
        [format, words, zeros],
    )
    return torch.tensor(bits)


def all_patterns(format: str) -> torch.Tensor:
    """Return every value of a format of 8 or 16 bits, in the order of its patterns."""
    width = 16 if FORMATS[format] is torch.int16 else 8
    integers = torch.arange(2**width)
    dtype = FORMATS[format]
    return integers.to(dtype).view(getattr(torch, format))


def same(got: torch.Tensor, expected: torch.Tensor) -> bool:
    """Tell whether all are equal, zeros by their sign, and nan where nan belongs."""
    numbers = ~expected.isnan()
    signs = torch.signbit(got[numbers]) == torch.signbit(expected[numbers])
    return torch.allclose(got, expected, rtol=0, atol=0, equal_nan=True) and bool(signs.all())


def bits_of(values: torch.Tensor) -> torch.Tensor:
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[values.element_size()]
    return values.view(integers).long() % 2 ** (8 * values.element_size())


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize("format", FORMATS)
def test_every_pattern_is_decoded_as_torch_reads_it(ask, format):
    expected = all_patterns(format).double()
    got = decode_all(ask, format, list(range(len(expected))))
    assert same(got, expected)


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize("format", FORMATS)
def test_every_number_and_what_lies_between_is_rounded_as_torch_does(ask, format):
    numbers = all_patterns(format).double()
    numbers = numbers[numbers.isfinite() & (numbers >= 0)]
    middles = (numbers[:-1] + numbers[1:]) / 2
    # In float32, so that torch's cast rounds once; bf16's smallest ties lie on its last bit.
    exact = torch.cat([numbers, middles]).float()
    around = [exact, exact.nextafter(exact.new_tensor(torch.inf)), exact.nextafter(-exact[:1])]
    positive = torch.cat(around)
    values = torch.cat([positive, -positive])
    expected = values.to(getattr(torch, format))
    assert len(values) > 6 * len(numbers)
    assert (encode_all(ask, format, values.double()) == bits_of(expected)).all()


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize("format", FORMATS)
def test_what_is_too_large_or_no_number_is_stored_as_torch_does(ask, format):
    largest = torch.finfo(getattr(torch, format)).max
    values = torch.tensor([largest * 1.04, largest * 1.25, 3e38, torch.inf])
    values = torch.cat([values, -values])
    expected = values.to(getattr(torch, format))
    if format == "float8_e4m3fn" and expected.float().isnan().any():
        pytest.skip("this torch makes nan of what is too large; newer ones saturate")
    assert (encode_all(ask, format, values.double()) == bits_of(expected)).all()
    nan = encode_all(ask, format, torch.tensor([torch.nan]))
    assert decode_all(ask, format, nan.tolist()).isnan().all()


@pytest.mark.needs_system("chromium-headless-shell")
def test_float32_is_rounded_and_read_as_torch_does(ask):
    generator = torch.Generator().manual_seed(0)
    patterns = torch.randint(0, 2**32, (20_000,), generator=generator)
    edges = torch.tensor([0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001])
    patterns = torch.cat([patterns, edges, edges + 2**31])
    expected = (patterns - 2**32 * (patterns >= 2**31)).to(torch.int32).view(torch.float32)
    assert same(decode_all(ask, "float32", patterns.tolist()), expected.double())

    finite = expected[expected.isfinite()].double()
    between = finite * (1 + 2.0**-25 * torch.randn(len(finite), generator=generator).double())
    assert (encode_all(ask, "float32", between) == bits_of(between.float())).all()


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize("format", FORMATS)
def test_neighbors_and_steps_are_those_of_the_number_line(ask, format):
    found = ask(
        f"""format => {{
            const write = {WRITE};
            const patterns = [...Array(2 ** (format.startsWith('float8') ? 8 : 16)).keys()];
            return patterns.map(bits => Object.values(explorer.neighbors(format, bits)))
                .map(row => row.map(item => item === null ? null : write(item)));
        }}""",
        format,
    )
    values = all_patterns(format).double()
    line = values[~values.isnan()].unique()  # from -inf, or the least number, up; zero counts once
    places = torch.searchsorted(line, values)
    ladder = [None, *line.tolist(), None]
    # The step at the largest number is the one before it: the next would lead to inf, or nowhere.
    finite = line[line.isfinite()]
    steps = finite.diff().abs()
    for value, place, (below, above, ulp) in zip(
        values.tolist(), places.tolist(), found, strict=True
    ):
        if math.isnan(value):
            assert (below, above, ulp) == (None, None, None)
            continue
        told = [None if number is None else float(number) for number in (below, above)]
        assert told == [ladder[place], ladder[place + 2]]
        if math.isinf(value):
            assert ulp is None
            continue
        step = torch.searchsorted(finite, abs(value)).clamp(max=len(steps) - 1)
        assert 2.0**ulp == steps[step].item()


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", 0.1),
        (" -1e-3 ", -1e-3),
        ("2^-24", 2.0**-24),
        ("-2**10", -1024),
        ("\N{MINUS SIGN}.5", -0.5),
        ("inf", "Infinity"),
        ("-Infinity", "-Infinity"),
        ("NaN", "NaN"),
        ("", None),
        ("0x10", None),
        ("1 2", None),
        ("ten", None),
    ],
)
def test_what_is_typed_is_read_as_a_number_or_refused(ask, text, value):
    code = f"text => explorer.parse(text) === null ? null : ({WRITE})(explorer.parse(text))"
    assert ask(code, text) == value


@given(st.floats(width=32), st.sampled_from([*FORMATS, "float32"]))
def test_the_picture_holds_torchs_bits(value: float, format: str):
    stored = torch.tensor(value, dtype=torch.float32).to(getattr(torch, format))
    assert find_bits(value, format) == bits_of(stored[None]).item()
    picture = draw_static(value, format)
    cells = picture.partition('<div class="bits-row">')[2]
    assert cells.count(">1</span>") == find_bits(value, format).bit_count()


def test_outside_a_notebook_one_line_tells_the_bits(capsys):
    explore_bits(0.1, "float16")
    assert capsys.readouterr().out == (
        "0.1 is stored in float16 as 0.0999755859375: 0 01011 1001100110.\n"
    )


def test_an_unknown_format_is_refused_in_one_sentence():
    with pytest.raises(UnknownFormatError, match='format is "fp4"; write one of: float32, '):
        explore_bits(1.0, "fp4")


def shown_in_a_notebook(preparation: str) -> dict:
    """Return the forms that a notebook's front end gets of ``explore_bits()``."""
    from nbclient import NotebookClient
    from nbformat.v4 import new_code_cell, new_notebook

    code = f"{preparation}\nfrom helpers import explore_bits\nexplore_bits()"
    notebook = new_notebook(cells=[new_code_cell(code)])
    NotebookClient(
        notebook, kernel_name="python3", resources={"metadata": {"path": ROOT}}
    ).execute()
    (output,) = notebook.cells[0].outputs
    return output.data


def test_a_notebook_gets_the_widget_and_the_picture():
    forms = shown_in_a_notebook("")
    assert set(forms) == {
        "text/plain",
        "text/html",
        "application/vnd.jupyter.widget-view+json",
    }
    assert "<script" not in forms["text/html"]


def test_a_notebook_without_anywidget_gets_the_picture():
    forms = shown_in_a_notebook("import sys\nsys.modules['anywidget'] = None")
    assert set(forms) == {"text/plain", "text/html"}
    assert "<script" not in forms["text/html"]


@pytest.mark.needs_system("chromium-headless-shell")
def test_on_colab_the_output_runs_by_itself(browser):
    # Colab puts an output into a frame of its own, from another origin.
    forms = shown_in_a_notebook(
        "import sys, types\nsys.modules['google.colab'] = types.ModuleType('google.colab')"
    )
    assert set(forms) == {"text/plain", "text/html"}
    page = browser.new_page()
    page.set_content('<iframe sandbox="allow-scripts" width="900" height="600"></iframe>')
    page.eval_on_selector("iframe", "(frame, html) => { frame.srcdoc = html }", forms["text/html"])
    inside = page.frame_locator("iframe")
    inside.get_by_role("button", name="sign bit").click()
    inside.locator("[data-key=value]", has_text="-0.0999755859375").wait_for()
    page.close()


def test_importing_the_helpers_needs_no_widget_library():
    code = (
        "import sys, helpers; print([m for m in ('anywidget', 'ipywidgets') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.stdout == "[]\n", run.stderr


def test_a_stored_notebook_keeps_the_picture_and_no_widget_that_is_gone():
    (cell,) = (c for c in source("02-float-formats").cells if "explore_bits(0.1" in c.source)
    (output,) = cell.outputs
    assert set(output.data) == {"text/plain", "text/html"}
    assert draw_static(0.1, "float16") in output.data["text/html"]


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize("value", [0.1, -3.0, 70000.0, 1e-7, 3.4e38])
def test_formats_side_by_side_have_what_torch_stores(ask, value):
    rows = ask("value => explorer.compare(value)", value)
    assert len(rows) == 5
    for (_, bits, stored, off), format in zip(rows, FORMATS_SHOWN, strict=True):
        dtype = getattr(torch, format)
        expected = torch.tensor(value, dtype=torch.float64).float().to(dtype).double().item()
        assert int(bits) == 8 * dtype.itemsize
        if format != "float8_e4m3fn" or abs(value) <= 448:  # beyond, torch's versions differ
            assert float(stored) == expected
            error = abs(expected - value) / abs(value)
            assert (off == "\N{EN DASH}") == math.isinf(error)
            if not math.isinf(error):
                assert float(off.removesuffix("%")) == pytest.approx(100 * error, rel=1e-2)


def test_formats_side_by_side_stand_in_the_picture():
    assert "beside" not in find_start(0.1, "float16")
    assert _draw_beside(0.1).count("<tr>") == 6
    assert "<td>float8_e4m3fn</td><td>8</td><td>0.1015625</td>" in _draw_beside(0.1)
