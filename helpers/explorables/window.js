// The window: rows in micro-batches, and what each row weighs in the accumulated gradient.

const RULES = {
  count: "divided by the number of micro-batches",
  none: "not divided",
  share: "times its share of the rows",
};
const WIDTH = 640;
const HEIGHT = 190;
const BASE = 150; // where the bars stand
const TALLEST = 120;
const UNIT = 15; // how high a row of the full batch is
const MOST = 8;

// ---- Numbers

function add(sizes) {
  return sizes.reduce((sum, size) => sum + size, 0);
}

/** Return what one row of each micro-batch weighs; each loss is a mean over its own rows. */
export function weigh(sizes, rule) {
  const total = add(sizes);
  return sizes.map((size) => {
    if (rule === "none") return 1 / size;
    return rule === "count" ? 1 / (size * sizes.length) : 1 / total;
  });
}

/** Return `sizes` with the cut behind micro-batch `place` moved to `row`; none becomes empty. */
export function moveCut(sizes, place, row) {
  const before = add(sizes.slice(0, place));
  const both = sizes[place] + sizes[place + 1];
  const size = Math.min(Math.max(Math.round(row) - before, 1), both - 1);
  return sizes.with(place, size).with(place + 1, both - size);
}

/** Return `sizes` with one micro-batch more, the largest in halves, or one less, the last two as one. */
export function changeCount(sizes, by) {
  if (by < 0) return [...sizes.slice(0, -2), sizes.at(-2) + sizes.at(-1)];
  const place = sizes.indexOf(Math.max(...sizes));
  const half = Math.floor(sizes[place] / 2);
  return [...sizes.slice(0, place), sizes[place] - half, half, ...sizes.slice(place + 1)];
}

// ---- Words

function percent(weight) {
  return `${shorten(100 * weight)}%`;
}

export function describe(sizes, rule) {
  const total = add(sizes);
  const weights = weigh(sizes, rule);
  const rows = `${total} rows in ${sizes.length === 1 ? "one piece" : `micro-batches of ${list(sizes.map(String))}`}`;
  const isRight = weights.every((weight) => Math.abs(weight * total - 1) < 1e-9);
  if (isRight) return `${rows}, each loss ${RULES[rule]}: every row weighs ${percent(1 / total)}, as in the full batch.`;
  const [least, most] = [Math.min(...weights), Math.max(...weights)];
  const apart = most / least > 1 + 1e-9
    ? `a row weighs from ${percent(least)} to ${percent(most)}`
    : `every row weighs ${percent(most)}`;
  return `${rows}, each loss ${RULES[rule]}: ${apart}; in the full batch it weighs ${percent(1 / total)}.`;
}

// ---- The page

/** Fill `place` with a window that starts from {sizes, rule}. `onChange` hears of each change. */
export function mount(place, start, onChange = () => {}) {
  const id = uniqueId("window");
  let { sizes, rule } = start;
  const choice = make("select", { id: `${id}-rule` });
  for (const [name, label] of Object.entries(RULES)) choice.append(make("option", { value: name }, label));
  const fewer = make("button", { type: "button" }, "One cut less");
  const more = make("button", { type: "button" }, "One cut more");
  const said = make("p", { class: "bits-said", role: "status" });
  const picture = makeSvg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "bits-window", role: "group",
    "aria-label": "The rows, as bars as high as they weigh; the cuts between them move",
  });
  const controls = make(
    "div", { class: "bits-controls" },
    make("label", { for: choice.id }, "Each loss is ", choice), fewer, more,
  );

  const total = () => add(sizes);
  const rowsUpTo = (k) => add(sizes.slice(0, k));
  let bars = [];
  let labels = [];
  let cuts = [];
  const level = BASE - UNIT;
  const wanted = makeSvg("line", { x1: 0, x2: WIDTH, y1: level, y2: level, class: "bits-wanted" });

  function change(next) {
    ({ sizes = sizes, rule = rule } = next);
    draw();
    onChange({ sizes, rule });
  }

  // What is dragged stays in the page while it moves: a finger is lost with what it touched.
  function build() {
    bars = sizes.map((_, k) => makeSvg("rect", { class: k % 2 ? "bits-odd" : "bits-even" }));
    labels = sizes.map(() => makeSvg("text", { y: BASE + 38, "text-anchor": "middle" }));
    cuts = sizes.slice(1).map((_, k) =>
      makeSvg(
        "g", {
          class: "bits-cut", role: "slider", tabindex: 0, "data-place": k,
          "aria-label": `cut behind micro-batch ${k + 1}`,
        },
        makeSvg("line", { y1: 8, y2: BASE }), makeSvg("circle", { cy: BASE + 10, r: 10 }),
      ),
    );
    picture.replaceChildren(...bars, wanted, ...labels, ...cuts);
  }

  function drawMicroBatch(k, weight) {
    const step = WIDTH / total();
    const [begin, size] = [rowsUpTo(k), sizes[k]];
    const height = Math.min(TALLEST, UNIT * weight * total());
    const width = Math.max(size * step - 1, 1);
    set(bars[k], { x: begin * step + 0.5, y: BASE - height, width, height });
    labels[k].setAttribute("x", (begin + size / 2) * step);
    labels[k].textContent = size;
    if (k === cuts.length) return;
    const [end, next] = [begin + size, sizes[k + 1]];
    set(cuts[k], {
      transform: `translate(${end * step})`, "aria-valuemin": begin + 1,
      "aria-valuemax": end + next - 1, "aria-valuenow": end, "aria-valuetext": `behind row ${end}`,
    });
  }

  function draw() {
    if (bars.length !== sizes.length) build();
    weigh(sizes, rule).forEach((weight, k) => drawMicroBatch(k, weight));
    choice.value = rule;
    fewer.disabled = sizes.length === 1;
    more.disabled = sizes.length === MOST || Math.max(...sizes) === 1;
    said.textContent = describe(sizes, rule);
  }

  picture.addEventListener("keydown", (event) => {
    const place = Number(event.target.closest(".bits-cut")?.dataset.place ?? NaN);
    const moves = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 };
    moves.Home = -total();
    moves.End = total();
    if (Number.isNaN(place) || !(event.key in moves)) return;
    event.preventDefault();
    change({ sizes: moveCut(sizes, place, rowsUpTo(place + 1) + moves[event.key]) });
  });
  let dragged = null;
  picture.addEventListener("pointerdown", (event) => {
    const cut = event.target.closest(".bits-cut");
    if (!cut) return;
    event.preventDefault();
    dragged = Number(cut.dataset.place);
    cut.focus();
    picture.setPointerCapture(event.pointerId);
  });
  picture.addEventListener("pointermove", (event) => {
    if (dragged === null) return;
    const box = picture.getBoundingClientRect();
    const next = moveCut(sizes, dragged, ((event.clientX - box.left) / box.width) * total());
    if (next[dragged] !== sizes[dragged]) change({ sizes: next });
  });
  for (const end of ["pointerup", "pointercancel"]) {
    picture.addEventListener(end, () => (dragged = null));
  }
  choice.addEventListener("change", () => change({ rule: choice.value }));
  fewer.addEventListener("click", () => change({ sizes: changeCount(sizes, -1) }));
  more.addEventListener("click", () => change({ sizes: changeCount(sizes, 1) }));

  claim(place, "A window of micro-batches");
  place.replaceChildren(controls, picture, said);
  draw();
  return {
    show(next) {
      if (JSON.stringify(next) === JSON.stringify({ sizes, rule })) return;
      ({ sizes, rule } = next);
      draw();
    },
  };
}
