"""Predict, then look: what is asked, what is kept, and what shows only afterwards."""

from __future__ import annotations

import json
import re

import pytest

from helpers import predict, predictions
from helpers.catalogue import load_chapters
from helpers.explorables import prediction, stage
from helpers.progress_store import ProgressStore

QUESTION = "How far off is `.grad`?"
NUMBER = {
    "name": "05/how-far", "question": QUESTION, "truth": 70.25,
    "reason": "The last one weighs more.",
    "choices": [], "between": [0, 100], "unit": "%", "given": None,
}  # fmt: skip
CHOICE = {
    **NUMBER, "name": "05/which", "truth": "`step`", "choices": ["`clip`", "`step`"], "between": [],
    "unit": "",
}  # fmt: skip


@pytest.fixture
def store(tmp_path, monkeypatch) -> ProgressStore:
    store = ProgressStore(tmp_path / "progress.json")
    monkeypatch.setattr(prediction.progress_store, "current_store", lambda: store)
    return store


def test_what_is_predicted_is_kept_with_the_progress_and_can_be_forgotten(tmp_path) -> None:
    file = tmp_path / "progress.json"
    exercise = load_chapters()[0].exercises[0]
    ProgressStore(file).note_check(exercise, 2.0)
    kept = {"question": QUESTION, "truth": 70.25, "unit": "%", "given": 30}
    ProgressStore(file).note_prediction("05/how-far", kept)
    ProgressStore(file).note_prediction("06/other", {**kept, "given": 1})
    again = ProgressStore(file)
    assert again.prediction("05/how-far") == 30
    assert again.predictions("05/") == [kept]
    assert again.best_points(exercise) == 2.0
    assert again.last == exercise.name, "a prediction is no check"
    again.note_prediction("05/how-far", {**kept, "given": None})
    assert ProgressStore(file).prediction("05/how-far") is None
    assert ProgressStore(file).predictions("06/")


def test_outside_a_notebook_question_truth_and_reason_are_told(store, capsys) -> None:
    predict("05/how-far", QUESTION, 70.25, "Why.", between=(0, 100), unit="%")
    assert capsys.readouterr().out == "How far off is .grad? 70.3%. Why.\n"
    predictions("05")
    assert capsys.readouterr().out == "Nothing has been predicted in this chapter yet.\n"
    store.note_prediction("05/how-far", {**NUMBER, "given": 30})
    predictions("05")
    assert capsys.readouterr().out == "How far off is .grad? You: 30. It is: 70.25.\n"


@pytest.mark.parametrize(
    ("name", "truth", "options", "problem"),
    [
        ("how far", 1.0, {"between": (0, 2)}, 'write it as "05/last-batch"'),
        ("05/a", "c", {"choices": ["a", "b"]}, 'the truth is "c", which is none of the choices'),
        ("05/a", 3.0, {"between": (0, 2)}, "the truth is 3.0, which does not lie between"),
        ("05/a", 3.0, {}, "the truth is 3.0, which does not lie between None"),
    ],
)
def test_what_makes_no_sense_is_refused(name, truth, options, problem) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        predict(name, QUESTION, truth, "Why.", **options)


def test_without_scripts_the_truth_stands_in_a_fold(store) -> None:
    drawn = prediction._draw(CHOICE)
    before, fold = drawn.split("<details>")
    assert "<code>clip</code>" in before
    assert "<b><code>step</code></b>" in fold


@pytest.fixture
def open_prediction(browser, tmp_path):
    page = browser.new_page(viewport={"width": 600, "height": 500})
    page.route(
        "http://a.test/**",
        lambda route: route.fulfill(body="<main></main>", content_type="text/html"),
    )

    def start(name: str, state: dict, behind: str = ""):
        page.goto("http://a.test/")
        still = stage.set_up(name, state, "a picture") + behind
        page.evaluate("html => { document.querySelector('main').innerHTML = html }", still)
        code = stage.read_module(name) + f'\nmountAll(document, "{name}", mount);\n'
        page.add_script_tag(type="module", content=code)
        page.get_by_role("group").first.wait_for()
        return page

    yield start
    page.close()


@pytest.mark.needs_system("chromium-headless-shell")
def test_a_choice_is_made_before_the_truth_shows_and_stays(open_prediction) -> None:
    page = open_prediction("prediction", CHOICE)
    assert "The last one weighs more" not in page.inner_text("main")
    look = page.get_by_role("button", name="Look", exact=True)
    assert look.is_disabled()
    page.get_by_label("clip").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    assert "You predicted\nclip" in page.inner_text("main")
    assert "It is\nstep" in page.inner_text("main")
    assert page.get_by_role("status").inner_text() == "The last one weighs more."
    page = open_prediction("prediction", CHOICE)
    assert "You predicted\nclip" in page.inner_text("main"), "it is kept by the browser"
    page = open_prediction("predictions", {"chapter": "05", "kept": None})
    cells = page.locator("td").all_inner_texts()
    assert cells == ["How far off is .grad?", "clip", "step"]
    page = open_prediction("prediction", CHOICE)
    page.get_by_role("button", name="Predict again").click()
    assert page.get_by_role("button", name="Look", exact=True).is_disabled()
    page = open_prediction("predictions", {"chapter": "05", "kept": None})
    assert "Nothing has been predicted in this chapter yet." in page.inner_text("main")


@pytest.mark.needs_system("chromium-headless-shell")
def test_a_number_is_predicted_on_an_axis(open_prediction) -> None:
    page = open_prediction("prediction", NUMBER)
    axis = page.get_by_role("slider")
    assert axis.input_value() == "50"
    axis.focus()
    for key in ("Home", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert axis.get_attribute("aria-valuetext") == "2%"
    page.get_by_role("button", name="Look", exact=True).click()
    assert "You predicted\n2%" in page.inner_text("main")
    assert "It is\n70.3%" in page.inner_text("main")
    assert (
        page.get_by_role("status").inner_text() == "You predicted less. The last one weighs more."
    )


@pytest.mark.needs_system("chromium-headless-shell")
def test_an_axis_starts_from_its_middle(open_prediction) -> None:
    page = open_prediction("prediction", {**NUMBER, "truth": 0.5, "between": [0, 1]})
    assert page.get_by_role("slider").input_value() == "0.5"


@pytest.mark.needs_system("chromium-headless-shell")
def test_what_gives_it_away_shows_afterwards_and_nobody_has_to_predict(open_prediction) -> None:
    behind = "<p>It is 70.3.</p><pre>70.3</pre><h2>The next section</h2><p>goes on</p>"
    page = open_prediction("prediction", NUMBER, behind)
    assert "70.3" not in page.inner_text("main")
    assert page.get_by_text("goes on").is_visible()
    assert "The last one weighs more" not in page.inner_text("main")
    page.emulate_media(media="print")
    assert "It is 70.3.\n" in page.inner_text("main")
    assert "It is 70.3%. The last one weighs more." in page.inner_text("main")
    page.emulate_media(media="screen")
    page.get_by_role("button", name="Look without a prediction").click()
    assert "It is 70.3." in page.inner_text("main")
    assert "You predicted\nnothing" in page.inner_text("main")
    assert page.get_by_role("status").inner_text() == "The last one weighs more."
    page.get_by_role("button", name="Predict again").click()
    assert "70.3" not in page.inner_text("main")
    page = open_prediction("predictions", {"chapter": "05", "kept": None})
    assert "Nothing has been predicted" in page.inner_text("main")


@pytest.mark.needs_system("chromium-headless-shell")
@pytest.mark.parametrize(
    "box",
    ['<section class="exercise-card"><h2>A box</h2></section>', "<blockquote>A box</blockquote>"],
)
def test_a_box_behind_a_prediction_is_not_covered(open_prediction, box: str) -> None:
    page = open_prediction("prediction", NUMBER, f"<p>It is 70.3.</p>{box}")
    assert "70.3" not in page.inner_text("main")
    assert page.get_by_text("A box").is_visible()


@pytest.mark.needs_system("chromium-headless-shell")
def test_a_script_that_stands_there_twice_asks_once(open_prediction) -> None:
    page = open_prediction("prediction", CHOICE)
    page.get_by_label("clip").check()
    code = stage.read_module("prediction") + '\nmountAll(document, "prediction", mount);\n'
    page.add_script_tag(type="module", content=code + "\nwindow.again = true;\n")
    page.wait_for_function("() => window.again")
    assert page.get_by_label("clip").is_checked()


@pytest.mark.needs_system("chromium-headless-shell")
def test_how_near_it_was_is_told(open_prediction) -> None:
    page = open_prediction("prediction", NUMBER)
    code = stage.read_module("prediction") + "\nwindow.compare = compare;\n"
    page.add_script_tag(type="module", content=code)
    page.wait_for_function("() => window.compare")
    for given, told in ((70, "That is what came."), (62, "Close."), (90, "You predicted more.")):
        assert page.evaluate("given => compare(given, 70.25, [0, 100])", given) == told


def test_a_notebook_keeps_what_is_given_out_of_what_it_stores(store) -> None:
    store.note_prediction(NUMBER["name"], {**NUMBER, "given": 30})
    state = json.dumps({**NUMBER, "given": None})
    shown = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage.display, "show", lambda *all_: shown.append(all_))
        predict(NUMBER["name"], QUESTION, 70.25, NUMBER["reason"], between=(0, 100), unit="%")
    ((_, page, live),) = shown
    (place,) = re.findall(r'data-state="([^"]*)"', page)
    assert json.loads(place.replace("&quot;", '"')) == json.loads(state) | {"truth": 70.3}
    assert live, "a widget that starts from what was given"


def test_a_style_sheet_that_names_an_explorable_is_none() -> None:
    page = stage.set_up("prediction", NUMBER, "a picture")
    assert 'data-explorable="predictions"' in page
    assert stage.find_explorables(page) == ["prediction"]
