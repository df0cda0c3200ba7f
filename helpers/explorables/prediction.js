// Predict, then look: a question, and the cell's own result once it is answered.

// ---- Words

/** Return how far a predicted number is from the truth, in words. */
export function compare(given, truth, [low, high]) {
  const gap = Math.abs(given - truth) / (high - low);
  if (gap <= 0.02) return "That is what came.";
  return gap <= 0.1 ? "Close." : `You predicted ${given < truth ? "less" : "more"}.`;
}

// ---- What is kept

function recall(name) {
  try {
    return JSON.parse(localStorage.getItem(PREDICTED + name))?.given ?? null;
  } catch {
    return null; // a browser that keeps nothing for this page
  }
}

function keep(name, kept) {
  try {
    if (kept.given === null) localStorage.removeItem(PREDICTED + name);
    else localStorage.setItem(PREDICTED + name, JSON.stringify(kept));
  } catch {
    // The same: it is forgotten with the page.
  }
}

// ---- The page

/**
 * Return what follows `place` in the book's page up to the next heading: it may give it away. Boxes
 * do not: a card, or a chapter's aims.
 */
function findSpoilers(place) {
  const spoilers = [];
  let node = place.closest("main > *")?.nextElementSibling;
  while (node && !node.matches("h1, h2, h3, h4, h5, nav, script, blockquote, .exercise-card") && !node.querySelector("[data-explorable=prediction]")) {
    spoilers.push(node);
    node = node.nextElementSibling;
  }
  return spoilers;
}

/** Fill `place` with a question. Where there is no `onChange`, the browser keeps the answer. */
export function mount(place, start, onChange = null) {
  const { name, question, truth, reason, choices, between, unit } = start;
  const id = uniqueId("prediction");
  const spoilers = onChange ? [] : findSpoilers(place);
  let given = start.given ?? (onChange ? null : recall(name));
  let hasGivenUp = false;

  function change(next) {
    given = next;
    hasGivenUp = false;
    if (onChange) onChange({ ...start, given });
    else keep(name, { question, truth, unit, given });
    draw();
    place.querySelector("button").focus();
  }

  function ask() {
    const look = make("button", { type: "submit" }, "Look");
    look.disabled = true;
    const form = make("form", { class: "bits-asked" });
    let read;
    if (choices.length) {
      const group = make("div", { role: "radiogroup", "aria-labelledby": id });
      for (const choice of choices) {
        const button = make("input", { type: "radio", name: id, value: choice });
        group.append(addMarked(make("label", {}, button, " "), choice));
      }
      form.append(group);
      read = () => form.querySelector("input:checked")?.value ?? null;
    } else {
      const step = (between[1] - between[0]) / 100;
      const range = make("input", {
        type: "range", min: between[0], max: between[1], step,
        value: (between[0] + between[1]) / 2, "aria-labelledby": id,
      });
      const shown = make("output", {}, "move it");
      range.addEventListener("input", () => {
        shown.textContent = tell(Number(range.value), unit);
        range.setAttribute("aria-valuetext", shown.textContent);
      });
      form.append(range, shown);
      read = () => Number(range.value);
    }
    const giveUp = make("button", { type: "button" }, "Look without a prediction");
    giveUp.addEventListener("click", () => {
      hasGivenUp = true;
      draw();
      place.querySelector("button").focus();
    });
    form.append(look, giveUp);
    form.addEventListener("input", () => (look.disabled = false));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (read() !== null) change(read());
    });
    return form;
  }

  function row(term, value) {
    return make("div", {}, make("dt", {}, term), addMarked(make("dd", {}), value));
  }

  function answer() {
    const isNumber = typeof truth === "number";
    const isRight = given === null ? "" : isNumber ? compare(given, truth, between) : given === truth ? "That is what came." : "";
    const forget = make("button", { type: "button" }, "Predict again");
    forget.addEventListener("click", () => change(null));
    return [
      make(
        "dl", { class: "bits-readout" },
        row("You predicted", given === null ? "nothing" : tell(given, unit)), row("It is", tell(truth, unit)),
      ),
      addMarked(make("p", { class: "bits-said", role: "status" }), `${isRight} ${reason}`.trim()),
      forget,
    ];
  }

  /** What a reader of paper needs, who cannot press a button. */
  function tellOnPaper() {
    const told = addMarked(make("b", {}), `${tell(truth, unit)}.`);
    return addMarked(make("p", { class: "bits-on-paper" }, "It is ", told, " "), reason);
  }

  function draw() {
    const asked = addMarked(make("p", { class: "bits-question", id }), question);
    const asks = given === null && !hasGivenUp;
    place.replaceChildren(asked, ...(asks ? [ask(), tellOnPaper()] : answer()));
    for (const node of spoilers) node.classList.toggle("bits-covered", asks);
  }

  claim(place, "Predict, then look");
  draw();
  return {
    show(next) {
      if (next.given === given) return;
      given = next.given;
      draw();
    },
  };
}
