// A chain of layers with checkpoints: the bytes saved over one training step, under a budget.

const CHAINS = {
  equal: {
    label: "12 equal layers",
    inputs: [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    inside: [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
  },
  first: {
    label: "large layers first",
    inputs: [4, 4, 4, 4, 2, 2, 2, 2, 1, 1, 1, 1],
    inside: [8, 8, 8, 8, 4, 4, 4, 4, 2, 2, 2, 2],
  },
  last: {
    label: "large layers last",
    inputs: [1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4],
    inside: [2, 2, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8],
  },
};
const LAYERS = 12;
const WIDTH = 640;
const STEP = WIDTH / LAYERS;
const BASE = 84; // where the layers stand
const TALLEST = 60;
const CUT = 104; // where the checkpoints are
const FLOOR = 316; // of the tent
const TENT = 150; // its highest point
const HEIGHT = 350;

// ---- Numbers

function total(sizes) {
  return sizes.reduce((sum, size) => sum + size, 0);
}

function pairsOf(starts, count) {
  return starts.map((start, k) => [start, k + 1 < starts.length ? starts[k + 1] : count]);
}

/** Return what is saved over one training step, and how much of it belongs to the forward pass. */
export function follow({ inputs, inside }, starts) {
  const spans = pairsOf(starts, inputs.length);
  const live = [];
  let saved = 0;
  for (const [start, end] of spans) {
    for (let layer = start; layer < end; layer++) {
      if (layer === start) saved += inputs[layer];
      if (end === inputs.length) saved += inside[layer];
      live.push(saved);
    }
  }
  const turn = live.length;
  for (const [number, [start, end]] of [...spans.entries()].reverse()) {
    for (let layer = start; number < spans.length - 1 && layer < end; layer++) {
      saved += inside[layer];
      live.push(saved);
    }
    for (let layer = end - 1; layer >= start; layer--) {
      saved -= inside[layer] + (layer === start ? inputs[layer] : 0);
      live.push(saved);
    }
  }
  return { live, turn, peak: Math.max(...live) };
}

/** Return the starts that fit into `budget` and make the fewest layers run twice, or null. */
export function choose({ inputs, inside }, budget) {
  const ways = [{ start: 0, kept: inputs[0], starts: [0] }];
  for (let end = 1; end < inputs.length; end++) {
    const found = ways.filter(({ start, kept }) => kept + total(inside.slice(start, end)) <= budget);
    if (!found.length) continue;
    const least = found.reduce((a, b) => (b.kept < a.kept ? b : a));
    ways.push({ start: end, kept: least.kept + inputs[end], starts: [...least.starts, end] });
  }
  const way = ways.find(({ start, kept }) => kept + total(inside.slice(start)) <= budget);
  return way ? way.starts : null;
}

/** Return the smallest budget into which some choice fits. */
export function leastPeak(chain) {
  let budget = 1;
  while (!choose(chain, budget)) budget += 1;
  return budget;
}

/** Return as many equal segments as the square root of the layers, rounded. */
export function rootRule({ inputs }) {
  const segments = Math.round(Math.sqrt(inputs.length));
  return Array.from({ length: segments }, (_, k) => Math.round((k * inputs.length) / segments));
}

// ---- Words

function tellOf(chain, starts, budget) {
  const { peak } = follow(chain, starts);
  const layers = starts.map((start) => `${start + 1}`);
  const places = starts.length === 1
    ? "no checkpoint"
    : `segments begin at layers ${list(layers)}`;
  const count = starts.at(-1);
  const twice = count === 1 ? "1 layer runs twice" : `${count} layers run twice`;
  const fits = peak <= budget ? "fits" : `exceeds the budget by ${peak - budget}`;
  return `${places}; the peak is ${peak}, which ${fits}; ${twice}.`;
}

export function describe(name, starts, budget) {
  const chain = CHAINS[name];
  const best = choose(chain, budget);
  const least = leastPeak(chain);
  return [
    `Yours: ${tellOf(chain, starts, budget)}`,
    `Square-root rule: ${tellOf(chain, rootRule(chain), budget)}`,
    best
      ? `Best for this budget: ${tellOf(chain, best, budget)} The smallest possible peak is ${least}.`
      : `Nothing fits: the smallest possible peak is ${least}.`,
  ];
}

// ---- The page

/** Fill `place` with a chain that starts from {chain, starts, budget}; `onChange` hears of each change. */
export function mount(place, start, onChange = () => {}) {
  const id = uniqueId("segments");
  let { chain, starts, budget } = start;
  const choice = make("select", { id: `${id}-chain` });
  for (const [name, { label }] of Object.entries(CHAINS)) choice.append(make("option", { value: name }, label));
  const slider = make("input", { type: "range", min: 1, id: `${id}-budget` });
  const told = make("span");
  const none = make("button", { type: "button" }, "No checkpoint");
  const root = make("button", { type: "button" }, "Square-root rule");
  const best = make("button", { type: "button" }, "Best for this budget");
  const said = make("div", { role: "status" });
  const lines = ["", "", ""].map(() => make("p", { class: "bits-said" }));
  said.append(...lines);
  const picture = makeSvg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "bits-segments", role: "group",
    "aria-label": "Layers with checkpoints between them, and the size saved over one training step",
  });
  const controls = make(
    "div", { class: "bits-controls" },
    make("label", { for: choice.id }, "Chain: ", choice),
    make("label", { for: slider.id }, "Budget: ", slider, " ", told),
    none, root, best,
  );

  const layers = Array.from({ length: LAYERS }, () => makeSvg("rect"));
  const tent = makeSvg("path", { class: "bits-tent" });
  const limit = makeSvg("line", { x1: 0, x2: WIDTH, class: "bits-budget" });
  const turn = makeSvg("line", { y1: TENT - 14, y2: FLOOR, class: "bits-turn" });
  const forward = makeSvg("text", { y: HEIGHT - 10, "text-anchor": "end" });
  const backward = makeSvg("text", { y: HEIGHT - 10 });
  forward.textContent = "forward";
  backward.textContent = "backward";
  const cuts = Array.from({ length: LAYERS }, (_, k) => {
    const dot = makeSvg("circle", { cx: Math.max(k * STEP, 10), cy: CUT, r: 9 });
    if (!k) return dot;
    const field = makeSvg("rect", { x: k * STEP - STEP / 2, y: 0, width: STEP, height: CUT + 26, class: "bits-field" });
    return makeSvg(
      "g", {
        class: "bits-cut", role: "checkbox", tabindex: 0, "data-start": k,
        "aria-label": `checkpoint before layer ${k + 1}`,
      },
      field, dot,
    );
  });
  cuts[0].setAttribute("class", "bits-set");
  picture.append(...layers, tent, limit, turn, forward, backward, ...cuts);

  function change(next) {
    ({ chain = chain, starts = starts, budget = budget } = next);
    draw();
    onChange({ chain, starts, budget });
  }

  function draw() {
    const { inside } = CHAINS[chain];
    const step = follow(CHAINS[chain], starts);
    const most = follow(CHAINS[chain], [0]).peak;
    const top = Math.max(most, budget);
    const y = (size) => FLOOR - ((FLOOR - TENT) * size) / top;
    layers.forEach((layer, k) => {
      const height = (TALLEST * inside[k]) / Math.max(...inside);
      set(layer, {
        x: k * STEP + 4, y: BASE - height, width: STEP - 8, height,
        class: k < starts.at(-1) ? "bits-twice" : "bits-once",
      });
    });
    cuts.slice(1).forEach((cut, k) => {
      const isSet = starts.includes(k + 1);
      cut.setAttribute("aria-checked", `${isSet}`);
      cut.querySelector("circle").setAttribute("class", isSet ? "bits-set" : "bits-unset");
    });
    const width = WIDTH / step.live.length;
    const steps = step.live.map((size, k) => `L${k * width} ${y(size)}L${(k + 1) * width} ${y(size)}`);
    tent.setAttribute("d", `M0 ${FLOOR}${steps.join("")}L${WIDTH} ${FLOOR}Z`);
    set(limit, { y1: y(budget), y2: y(budget) });
    set(turn, { x1: step.turn * width, x2: step.turn * width });
    forward.setAttribute("x", step.turn * width - 6);
    backward.setAttribute("x", step.turn * width + 6);
    slider.max = Math.max(most, budget);
    slider.value = budget;
    told.textContent = budget;
    choice.value = chain;
    best.disabled = !choose(CHAINS[chain], budget);
    describe(chain, starts, budget).forEach((line, k) => (lines[k].textContent = line));
  }

  function toggle(k) {
    const next = starts.includes(k) ? starts.filter((s) => s !== k) : [...starts, k];
    change({ starts: next.sort((a, b) => a - b) });
  }
  const placeOf = (event) => Number(event.target.closest(".bits-cut")?.dataset.start ?? NaN);
  picture.addEventListener("click", (event) => {
    const k = placeOf(event);
    if (!Number.isNaN(k)) toggle(k);
  });
  picture.addEventListener("keydown", (event) => {
    const k = placeOf(event);
    const moves = { ArrowLeft: -1, ArrowRight: 1 };
    if (Number.isNaN(k) || (event.key !== " " && event.key !== "Enter" && !(event.key in moves))) return;
    event.preventDefault();
    if (event.key in moves) cuts[k + moves[event.key]]?.focus?.();
    else toggle(k);
  });
  choice.addEventListener("change", () => {
    // A budget in the same relation to what the chain saves without a checkpoint.
    const share = budget / follow(CHAINS[chain], [0]).peak;
    change({ chain: choice.value, budget: Math.round(share * follow(CHAINS[choice.value], [0]).peak) });
  });
  slider.addEventListener("input", () => change({ budget: Number(slider.value) }));
  none.addEventListener("click", () => change({ starts: [0] }));
  root.addEventListener("click", () => change({ starts: rootRule(CHAINS[chain]) }));
  best.addEventListener("click", () => change({ starts: choose(CHAINS[chain], budget) }));

  claim(place, "Checkpoints in a chain of layers");
  place.replaceChildren(controls, picture, said);
  draw();
  return {
    show(next) {
      if (JSON.stringify(next) === JSON.stringify({ chain, starts, budget })) return;
      ({ chain, starts, budget } = next);
      draw();
    },
  };
}
