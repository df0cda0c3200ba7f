// A gradient scaler over the steps of a training run, and one step's gradients in float16.

const FIRST_EXPONENT = -34;
// How many gradients have which exponent, in every step.
const SIZES = [
  1, 2, 3, 4, 6, 8, 11, 14, 18, 22, 27, 32, 36, 40, 42, 43,
  42, 40, 37, 33, 29, 25, 20, 16, 12, 9, 7, 5, 3, 2, 1,
];
const TOTAL = SIZES.reduce((sum, size) => sum + size, 0);
const INTERVALS = [2, 4, 8];
const MOST_STEPS = 48;
const HIGHEST = 32; // the exponent of the largest scale to start from
const FIRST_NORMAL = -14;
const FIRST_KEPT = -25;
const LAST_FINITE = 15;
const WIDTH = 640;
const LEFT = -60; // the exponent at the left end
const BIN = WIDTH / 104;
const BASE = 150; // of the histogram
const TALLEST = 110;
const TOP = 216; // of the scale's dots
const FLOOR = 318;
const LEARNED = 398; // of the bars below
const SHARE = 44;
const HEIGHT = 406;
const COLUMN = WIDTH / MOST_STEPS;

// ---- Numbers

function kindOf(place) {
  if (place < FIRST_KEPT) return "zero";
  if (place < FIRST_NORMAL) return "subnormal";
  return place <= LAST_FINITE ? "normal" : "inf";
}

/** Return how many gradients, scaled by 2 ** scale, are what in float16. */
export function sortGradients(scale) {
  const found = { zero: 0, subnormal: 0, normal: 0, inf: 0 };
  SIZES.forEach((size, k) => (found[kindOf(FIRST_EXPONENT + k + scale)] += size));
  return found;
}

/** Return the steps, and the exponent of the scale and the counter after them. */
export function run(start, interval, events) {
  const steps = [];
  let scale = start;
  let counter = 0;
  for (const event of events) {
    const found = sortGradients(scale);
    if (event === "i" || found.inf) {
      steps.push({ scale, kind: "skip", learned: 0 });
      scale -= 1;
      counter = 0;
      continue;
    }
    counter += 1;
    const grows = counter === interval;
    steps.push({ scale, kind: grows ? "grow" : "count", learned: found.subnormal + found.normal });
    if (grows) {
      scale += 1;
      counter = 0;
    }
  }
  return { steps, scale, counter };
}

// ---- Words

function shareOf(count) {
  return `${Math.floor((100 * count) / TOTAL + 0.5)}%`;
}

export function describe(start, interval, events) {
  const { steps, scale, counter } = run(start, interval, events);
  const last = steps.at(-1);
  const ends = {
    skip: `inf, so the step is skipped and the scale is halved to 2^${scale}.`,
    grow: `made; the counter reaches ${interval}, and the scale doubles to 2^${scale}.`,
    count: `made; the counter is ${counter} of ${interval}.`,
  };
  const made = steps.filter(({ kind }) => kind !== "skip").length;
  const reached = steps.reduce((sum, { learned }) => sum + learned, 0);
  const mean = last ? `; over all steps, ${shareOf(reached / steps.length)} of the gradients arrived` : "";
  const found = sortGradients(scale);
  return [
    last ? `Step ${steps.length}, scale 2^${last.scale}: ${ends[last.kind]}` : "No step yet.",
    `Made: ${made} of ${steps.length} steps${mean}.`,
    `The next step at 2^${scale}: ${shareOf(found.zero)} become 0, ${shareOf(found.subnormal)} are subnormal, `
      + `${shareOf(found.normal)} normal, ${shareOf(found.inf)} inf.`,
  ];
}

// ---- The page

function rangeOf(steps, scale) {
  const scales = [...steps.map((step) => step.scale), scale];
  const low = Math.min(...scales) - 1;
  return [low, Math.max(Math.max(...scales) + 1, low + 6)];
}

/** Fill `place` with a run that starts from {scale, interval, events}; `onChange` hears of each change. */
export function mount(place, start, onChange = () => {}) {
  const id = uniqueId("scaler");
  let { scale, interval, events } = start;
  const slider = make("input", { type: "range", min: 0, max: HIGHEST, id: `${id}-scale` });
  const told = make("span");
  const choice = make("select", { id: `${id}-interval` });
  for (const k of INTERVALS) choice.append(make("option", { value: k }, `${k}`));
  const step = make("button", { type: "button" }, "Step");
  const bad = make("button", { type: "button" }, "Step with inf");
  const four = make("button", { type: "button" }, "4 steps");
  const again = make("button", { type: "button" }, "Start again");
  const controls = make(
    "div", { class: "bits-controls" },
    make("label", { for: slider.id }, "First scale: ", slider, " ", told),
    make("label", { for: choice.id }, "Growth interval: ", choice),
    step, bad, four, again,
  );
  const said = make("div", { role: "status" });
  const lines = ["", "", ""].map(() => make("p", { class: "bits-said" }));
  said.append(...lines);
  const picture = makeSvg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "bits-scaler", role: "img",
    "aria-label": "The gradients of the next step by exponent over the zones of float16, and the scale of each step",
  });
  const x = (exponent) => Math.min(Math.max((exponent - LEFT) * BIN, 0), WIDTH);
  const zones = [["subnormal", FIRST_KEPT, FIRST_NORMAL], ["normal", FIRST_NORMAL, LAST_FINITE + 1]].map(
    ([kind, from, to]) => makeSvg("rect", {
      x: x(from), y: 24, width: x(to) - x(from), height: BASE - 24, class: `bits-zone bits-${kind}`,
    }),
  );
  const bars = SIZES.map((size) => {
    const height = (TALLEST * size) / Math.max(...SIZES);
    return makeSvg("rect", { y: BASE - height, width: BIN - 1, height });
  });
  const write = (attributes, text = "") => {
    const node = makeSvg("text", attributes);
    node.textContent = text;
    return node;
  };
  const names = [["0", -42], ["subnormal", -19.5], ["normal", 1], ["inf", 30]].map(
    ([name, at]) => write({ x: x(at), y: BASE + 22, "text-anchor": "middle" }, name),
  );
  const title = write({ x: 0, y: 16 }, "gradients by exponent, scaled");
  const heading = write({ x: 0, y: TOP - 14 });
  const legend = [["count", "made", 400], ["grow", "growth", 470], ["skip", "skipped", 555]].map(
    ([kind, name, at]) => write({ x: at, y: TOP - 14, class: `bits-${kind}` }, name),
  );
  const below = write({ x: 0, y: LEARNED - SHARE - 6 }, "share of gradients that arrive");
  const axes = [BASE, LEARNED].map((y) => makeSvg("line", { x1: 0, x2: WIDTH, y1: y, y2: y }));
  const walk = makeSvg("g");
  picture.append(...zones, ...bars, ...names, title, heading, ...legend, below, ...axes, walk);

  function change(next) {
    ({ scale = scale, interval = interval, events = events } = next);
    draw();
    onChange({ scale, interval, events });
  }

  function draw() {
    const { steps, scale: now } = run(scale, interval, events);
    bars.forEach((bar, k) => {
      const at = FIRST_EXPONENT + k + now;
      set(bar, { x: x(at) + 0.5, class: `bits-${kindOf(at)}` });
    });
    const [low, high] = rangeOf(steps, now);
    heading.textContent = `scale of each step, 2^${low} to 2^${high}`;
    const dots = [...steps, { scale: now, kind: "next" }].map((one, k) => makeSvg("circle", {
      cx: Math.min(k + 0.5, MOST_STEPS - 0.5) * COLUMN,
      cy: FLOOR - ((FLOOR - TOP) * (one.scale - low)) / (high - low), r: 5, class: `bits-${one.kind}`,
    }));
    const learned = steps.map((one, k) => {
      const height = (SHARE * one.learned) / TOTAL;
      return makeSvg("rect", { x: k * COLUMN + 1, y: LEARNED - height, width: COLUMN - 2, height, class: "bits-learned" });
    });
    walk.replaceChildren(...dots, ...learned);
    slider.value = scale;
    told.textContent = `2^${scale}`;
    choice.value = interval;
    for (const button of [step, bad, four]) button.disabled = events.length >= MOST_STEPS;
    describe(scale, interval, events).forEach((line, k) => (lines[k].textContent = line));
  }

  const add = (more) => change({ events: (events + more).slice(0, MOST_STEPS) });
  slider.addEventListener("input", () => change({ scale: Number(slider.value) }));
  choice.addEventListener("change", () => change({ interval: Number(choice.value) }));
  step.addEventListener("click", () => add("."));
  bad.addEventListener("click", () => add("i"));
  four.addEventListener("click", () => add("...."));
  again.addEventListener("click", () => change({ events: "" }));

  claim(place, "A gradient scaler at work");
  place.replaceChildren(controls, picture, said);
  draw();
  return {
    show(next) {
      if (JSON.stringify(next) === JSON.stringify({ scale, interval, events })) return;
      ({ scale, interval, events } = next);
      draw();
    },
  };
}
