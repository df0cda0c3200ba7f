// The measured plans of a training: memory against time and Dice, under a budget of bytes.

const ROUNDING = 1e-9; // 0.61 - 0.6 is a little more than 0.01
const UNITS = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "bytes"]];
const WIDTH = 640;
const LEFT = 56;
const RIGHT = 616;
const TOP = 66;
const FLOOR = 370;
const HEIGHT = 508;
const DOT = 8;
const COLORS = [[230, 159, 0], [0, 158, 115], [0, 114, 200]]; // from the lowest Dice to the highest
const BAR = 12;
const BAR_FROM = 108;
const BAR_TO = 240;
// Where the number of a dot may stand, as its middle seen from the dot.
const SPOTS = [[0, -20], [0, 22], [36, 0], [-36, 0], [28, -20], [-28, -20], [28, 22], [-28, 22]];
const NUMBER_WIDTH = 44;
const NUMBER_HEIGHT = 20;
const STOPS = 60; // of the slider, besides the budgets that are marked
const REACH = 34; // how far from a dot a finger may touch

// ---- Plans

export function beats(one, other) {
  return one.bytes <= other.bytes && one.seconds <= other.seconds && one.dice >= other.dice
    && (one.bytes < other.bytes || one.seconds < other.seconds || one.dice > other.dice);
}

const places = (plans, wanted) => [...plans.keys()].filter((k) => wanted(plans[k]));

/** Return the first of `found` that no other precedes, by what `keys` returns of a plan. */
function least(plans, found, keys) {
  const isBefore = (a, b) => {
    const k = a.findIndex((value, i) => value !== b[i]);
    return k >= 0 && a[k] < b[k];
  };
  return found.reduce((best, k) => (isBefore(keys(plans[k]), keys(plans[best])) ? k : best));
}

export function findFrontier(plans) {
  const free = places(plans, (plan) => !plans.some((other) => beats(other, plan)));
  return free.sort((a, b) => plans[a].bytes - plans[b].bytes || plans[a].seconds - plans[b].seconds);
}

/** Return the place of the plan that fits with the highest Dice; among equals, the quickest. */
export function findWinner(plans, budget, tie) {
  const fitting = places(plans, ({ bytes }) => bytes <= budget);
  if (!fitting.length) return null;
  const most = Math.max(...fitting.map((k) => plans[k].dice));
  const equal = fitting.filter((k) => most - plans[k].dice <= tie + ROUNDING);
  return least(plans, equal, ({ seconds, bytes }) => [seconds, bytes]);
}

const findBest = (plans, found) => least(plans, found, ({ dice, seconds, bytes }) => [-dice, seconds, bytes]);

function placeOf(plans, on) {
  const k = plans.findIndex((plan) => plan.on.length === on.length && on.every((name) => plan.on.includes(name)));
  return k < 0 ? null : k;
}

function placeBefore({ plans, on, switched }) {
  return placeOf(plans, on.includes(switched) ? on.filter((name) => name !== switched) : [...on, switched]);
}

// ---- Words

const nameOf = (on) => list(on) || "plain";
const twoDigits = (number) => number.toFixed(2);

function signed(number) {
  const digits = twoDigits(Math.abs(number));
  const sign = number < 0 ? "−" : "+";
  return `${digits === "0.00" ? "±" : sign}${digits}`;
}

function tellBytes(count) {
  const [size, unit] = UNITS.find(([size]) => count >= size);
  return `${shorten(count / size)} ${unit}`;
}

function tellPlan({ on, bytes, seconds, dice }) {
  return `${nameOf(on)} (${tellBytes(bytes)}, time × ${shorten(seconds)}, Dice ${twoDigits(dice)})`;
}

function tellSwitch(state, now) {
  const { plans, on, switched } = state;
  if (switched === null) return "Switch one lever to see what it changes.";
  const what = `${switched} switched ${on.includes(switched) ? "on" : "off"}`;
  const before = placeBefore(state);
  if (before === null || now === null) {
    const which = before === null ? "before" : "after";
    return `${what}: the change is unknown, because the plan ${which} it was not measured.`;
  }
  const [old, next] = [plans[before], plans[now]];
  return `${what}: bytes × ${shorten(next.bytes / old.bytes)}, time × ${shorten(next.seconds / old.seconds)}, `
    + `Dice ${signed(next.dice - old.dice)}.`;
}

function tellWinner({ plans, budget, tie }) {
  const winner = findWinner(plans, budget, tie);
  if (winner === null) {
    const smallest = plans[least(plans, [...plans.keys()], ({ bytes, seconds }) => [bytes, seconds])];
    return `Nothing fits into ${tellBytes(budget)}: the smallest plan is ${tellPlan(smallest)}.`;
  }
  const fitting = places(plans, ({ bytes }) => bytes <= budget);
  const fit = plans.length === 1 ? "plan fits" : "plans fit";
  const line = `The winner within ${tellBytes(budget)}, where ${fitting.length} of ${plans.length} ${fit}: ${tellPlan(plans[winner])}.`;
  const best = plans[findBest(plans, fitting)];
  if (best.seconds <= plans[winner].seconds) return line;
  return `${line} The highest Dice that fits is within ${shorten(tie)} of it, but slower: ${tellPlan(best)}.`;
}

export function describe(state) {
  const { plans, on, budget } = state;
  const now = placeOf(plans, on);
  const lines = [`Yours: ${nameOf(on)}. This combination was not measured.`, "So it has no dot in the picture."];
  if (now !== null) {
    const more = plans[now].bytes - budget;
    const stronger = places(plans, (plan) => beats(plan, plans[now]));
    lines[0] = `Yours: ${tellPlan(plans[now])}; ${more <= 0 ? "it fits" : `it exceeds the budget by ${tellBytes(more)}`}.`;
    lines[1] = stronger.length
      ? `It is not on the frontier: ${tellPlan(plans[findBest(plans, stronger)])} beats it.`
      : "It is on the frontier: no other plan beats it.";
  }
  return [...lines, tellSwitch(state, now), tellWinner(state)];
}

// ---- The picture's axes and colors

/** Return a logarithmic axis over `numbers`. */
function axisOver(numbers) {
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const room = Math.max((high / low) ** 0.06, 1.1);
  const [first, last] = [low / room, high * room];
  const share = (number) => Math.min(Math.max(Math.log(number / first) / Math.log(last / first), 0), 1);
  const at = (part) => first * (last / first) ** part;
  let found = [];
  if (last >= 4 * first) {
    for (let power = Math.floor(Math.log10(first)); power < Math.ceil(Math.log10(last)); power += 1) {
      found.push(...[1, 2, 5].map((k) => k * 10 ** power));
    }
  } else {
    const rough = (last - first) / 4;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * power).find((size) => size >= rough);
    const start = Math.ceil(first / step);
    found = Array.from({ length: 9 }, (_, k) => (start + k) * step);
  }
  return { last, share, at, ticks: found.filter((tick) => first <= tick && tick <= last) };
}

function colorOf(share) {
  const [start, end, rest] = share < 0.5
    ? [COLORS[0], COLORS[1], share * 2]
    : [COLORS[1], COLORS[2], share * 2 - 1];
  return `rgb(${start.map((a, k) => Math.round(a + (end[k] - a) * rest)).join(", ")})`;
}

/** Return where the number of each dot stands, for those that find room. */
function spotsFor(dots, order) {
  const placed = new Map();
  const isClear = (x, y) =>
    x >= LEFT + 20 && x <= WIDTH - 22 && y >= TOP + 10 && y <= FLOOR - 10
    && dots.every(([a, b]) => Math.abs(x - a) >= NUMBER_WIDTH / 2 + DOT || Math.abs(y - b) >= NUMBER_HEIGHT / 2 + DOT)
    && [...placed.values()].every(([a, b]) => Math.abs(x - a) >= NUMBER_WIDTH || Math.abs(y - b) >= NUMBER_HEIGHT);
  for (const k of order) {
    const spots = SPOTS.map(([dx, dy]) => [dots[k][0] + dx, dots[k][1] + dy]);
    const spot = spots.find(([x, y]) => isClear(x, y));
    if (spot) placed.set(k, spot);
  }
  return placed;
}

// ---- The page

/** Fill `place` with plans that start from {levers, plans, budgets, on, budget, tie, switched}. */
export function mount(place, start, onChange = () => {}) {
  const id = uniqueId("frontier");
  let state = start;
  const { levers, plans, budgets } = start;
  const memory = axisOver([...plans.map(({ bytes }) => bytes), ...budgets]);
  const time = axisOver(plans.map(({ seconds }) => seconds));
  const [size, unit] = UNITS.find(([size]) => memory.last >= size) ?? UNITS.at(-1);
  const lowest = Math.min(...plans.map(({ dice }) => dice));
  const highest = Math.max(...plans.map(({ dice }) => dice));
  const across = (bytes) => LEFT + memory.share(bytes) * (RIGHT - LEFT);
  const up = (seconds) => FLOOR - time.share(seconds) * (FLOOR - TOP);
  const dots = plans.map(({ bytes, seconds }) => [across(bytes), up(seconds)]);
  const even = Array.from({ length: STOPS + 1 }, (_, k) => Math.max(Math.round(memory.at(k / STOPS)), 1));
  const stops = [...new Set([...even, ...budgets, start.budget])].sort((a, b) => a - b);
  const nearest = (bytes) => Math.max(stops.findLastIndex((stop) => stop <= bytes), 0);

  const switches = levers.map((name, k) => make("input", { type: "checkbox", role: "switch", id: `${id}-${k}` }));
  const marks = make("datalist", { id: `${id}-marks` });
  for (const mark of budgets) marks.append(make("option", { value: stops.indexOf(mark), label: tellBytes(mark) }));
  const slider = make("input", { type: "range", min: 0, max: stops.length - 1, id: `${id}-budget`, list: marks.id });
  const told = make("span", { class: "bits-told" });
  const buttons = budgets.map((mark) => make("button", { type: "button" }, tellBytes(mark)));
  const controls = [
    make(
      "fieldset", { class: "bits-levers", "aria-label": "Levers" },
      ...levers.map((name, k) => make("label", { for: switches[k].id }, switches[k], name)),
    ),
    make(
      "div", { class: "bits-limit" },
      make("label", { for: slider.id }, "Budget: ", slider), told, marks, ...buttons,
    ),
  ];
  const said = make("div", { role: "status" });
  const lines = ["", "", "", ""].map(() => make("p", { class: "bits-said" }));
  said.append(...lines);
  const picture = makeSvg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "bits-frontiers", role: "img",
    "aria-label": "Measured plans as dots, memory to the right and time upward, colored by Dice; the text below tells of yours and of the winner",
  });

  const line = (x1, y1, x2, y2, kind) => makeSvg("line", { x1, y1, x2, y2, class: `bits-${kind}` });
  const write = (x, y, text, anchor = "start") => {
    const node = makeSvg("text", { x, y, "text-anchor": anchor });
    node.textContent = text;
    return node;
  };
  const ring = (x, y) => makeSvg("circle", { cx: x, cy: y, r: 13, class: "bits-yours" });
  const diamond = (x, y) => makeSvg("path", { d: `M${x} ${y - 20}l20 20l-20 20l-20 -20z`, class: "bits-winner" });
  const dot = (x, y, fill) => makeSvg("circle", { cx: x, cy: y, r: DOT, fill, class: "bits-plan" });

  const frontier = findFrontier(plans);
  const circles = plans.map(({ dice }, k) =>
    dot(...dots[k], colorOf(highest > lowest ? (dice - lowest) / (highest - lowest) : 1)));
  const numbers = new Map();
  const rest = [...plans.keys()].filter((k) => !frontier.includes(k));
  for (const [k, [x, y]] of spotsFor(dots, [...frontier, ...rest])) {
    const number = write(x, y + 7, twoDigits(plans[k].dice), "middle");
    number.classList.add("bits-number");
    numbers.set(k, number);
  }
  const outside = makeSvg("rect", { y: TOP, height: FLOOR - TOP, class: "bits-outside" });
  const limit = line(0, TOP - 6, 0, FLOOR, "budget");
  const limitTold = write(0, TOP - 12, "", "middle");
  const yours = ring(0, 0);
  const winner = diamond(0, 0);
  const moved = line(0, 0, 0, 0, "moved");
  const [first, second] = [HEIGHT - 46, HEIGHT - 14];
  const wide = (BAR_TO - BAR_FROM) / BAR;
  const notFitting = dot(478, first - 7, colorOf(1));
  notFitting.classList.add("bits-dimmed");
  picture.append(
    outside,
    line(LEFT, FLOOR, RIGHT, FLOOR, "axis"),
    line(LEFT, TOP, LEFT, FLOOR, "axis"),
    write(0, 20, "time (× the plain plan)"),
    write(RIGHT, FLOOR + 54, `peak memory (${unit})`, "end"),
    limitTold, limit,
    ...memory.ticks.flatMap((tick) => [
      line(across(tick), FLOOR, across(tick), FLOOR + 6, "axis"),
      write(across(tick), FLOOR + 26, shorten(tick / size), "middle"),
    ]),
    ...time.ticks.flatMap((tick) => [
      line(LEFT - 6, up(tick), LEFT, up(tick), "axis"),
      write(LEFT - 10, up(tick) + 7, shorten(tick), "end"),
    ]),
    ...budgets.map((mark) => line(across(mark), FLOOR - 12, across(mark), FLOOR, "mark")),
    makeSvg("path", { d: `M${frontier.map((k) => dots[k].join(" ")).join("L")}`, class: "bits-frontier" }),
    ...circles, ...numbers.values(), moved, winner, yours,
    ring(16, first - 7), write(40, first, "yours"),
    diamond(150, first - 7), write(178, first, "winner"),
    makeSvg("path", { d: `M290 ${first - 7}H340`, class: "bits-frontier" }), write(350, first, "frontier"),
    notFitting, write(498, first, "does not fit"),
    write(0, second, `Dice ${twoDigits(lowest)}`), write(BAR_TO + 10, second, twoDigits(highest)),
    ...Array.from({ length: BAR }, (_, k) => makeSvg("rect", {
      x: BAR_FROM + k * wide, y: second - 16, width: wide + 0.5, height: 18, fill: colorOf(k / (BAR - 1)),
    })),
  );

  function change(next) {
    state = { ...state, ...next };
    draw();
    onChange(state);
  }

  function draw() {
    const { on, budget, tie, switched } = state;
    const now = placeOf(plans, on);
    const best = findWinner(plans, budget, tie);
    const before = switched === null ? null : placeBefore(state);
    const x = across(budget);
    set(outside, { x, width: RIGHT - x });
    set(limit, { x1: x, x2: x });
    limitTold.setAttribute("x", Math.min(Math.max(x, LEFT + 84), RIGHT - 84));
    limitTold.textContent = `budget ${tellBytes(budget)}`;
    circles.forEach((circle, k) => {
      const isDimmed = plans[k].bytes > budget;
      circle.classList.toggle("bits-dimmed", isDimmed);
      numbers.get(k)?.classList.toggle("bits-dimmed", isDimmed);
    });
    yours.classList.toggle("bits-hidden", now === null);
    winner.classList.toggle("bits-hidden", best === null);
    moved.classList.toggle("bits-hidden", now === null || before === null);
    if (now !== null) set(yours, { cx: dots[now][0], cy: dots[now][1] });
    if (best !== null) winner.setAttribute("d", `M${dots[best][0]} ${dots[best][1] - 20}l20 20l-20 20l-20 -20z`);
    if (now !== null && before !== null) {
      set(moved, { x1: dots[before][0], y1: dots[before][1], x2: dots[now][0], y2: dots[now][1] });
    }
    levers.forEach((name, k) => (switches[k].checked = on.includes(name)));
    slider.value = nearest(budget);
    slider.setAttribute("aria-valuetext", tellBytes(budget));
    told.textContent = tellBytes(budget);
    describe(state).forEach((text, k) => (lines[k].textContent = text));
  }

  switches.forEach((one, k) => {
    one.addEventListener("change", () =>
      change({ on: levers.filter((_, j) => switches[j].checked), switched: levers[k] }));
    one.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      one.click();
    });
  });
  slider.addEventListener("input", () => change({ budget: stops[Number(slider.value)] }));
  buttons.forEach((button, k) => button.addEventListener("click", () => change({ budget: budgets[k] })));
  picture.addEventListener("click", (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(picture.getScreenCTM().inverse());
    const away = dots.map(([x, y]) => Math.hypot(x - point.x, y - point.y));
    const k = away.indexOf(Math.min(...away));
    if (away[k] > REACH) return;
    const { on } = plans[k];
    const differing = levers.filter((name) => on.includes(name) !== state.on.includes(name));
    if (differing.length) change({ on, switched: differing.length === 1 ? differing[0] : null });
  });

  claim(place, "The frontier of memory, time and Dice");
  place.replaceChildren(...controls, picture, said);
  draw();
  return {
    show(next) {
      if (JSON.stringify(next) === JSON.stringify(state)) return;
      state = next;
      draw();
    },
  };
}
