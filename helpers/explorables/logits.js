// With floats.js.
// Three logits on the number line of a format: softmax by the book, and shifted by the largest.

const NAMES = ["a", "b", "c"];
const OFFERED = ["float32", "bfloat16", "float16"];
const [LEAST, MOST] = [-150, 110]; // what the number line shows, and where logits may be
const TICKS = [-150, -100, -50, 0, 50, 100];
const [WIDTH, HEIGHT, SIDE] = [400, 158, 14];
const [TOP, LANE, BASE] = [22, 30, 118]; // of the window, between logits, of the axis
const RADIUS = 12;

// ---- Numbers: after each operation, what the format can hold.

function round(format, value) {
  return decode(format, encode(format, value)).value;
}

/** Return the arguments between which exp is neither 0 nor inf, and where it becomes subnormal. */
export function windowOf(format) {
  const { fractionBits, lowest, largest } = measures(format);
  const most = decode(format, largest).value;
  return {
    low: (lowest - fractionBits - 1) * Math.LN2, normal: lowest * Math.LN2, high: Math.log(most),
  };
}

function add(format, numbers) {
  return round(format, numbers.reduce((sum, number) => sum + number, 0));
}

/** Return {z, exp, sum, softmax, logSoftmax, logSumExp} as the formula has it. */
export function byTheBook(format, logits) {
  const exp = logits.map((z) => round(format, Math.exp(z)));
  const sum = add(format, exp);
  const softmax = exp.map((e) => round(format, e / sum));
  const logSoftmax = softmax.map((p) => round(format, Math.log(p)));
  return { z: logits, exp, sum, softmax, logSoftmax, logSumExp: round(format, Math.log(sum)) };
}

/** Return the same, with the largest logit moved to zero first. */
export function shifted(format, logits) {
  const largest = Math.max(...logits);
  const z = logits.map((logit) => round(format, logit - largest));
  const { exp, sum, softmax, logSumExp: log } = byTheBook(format, z);
  const logSoftmax = z.map((distance) => round(format, distance - log));
  return { z, exp, sum, softmax, logSoftmax, logSumExp: round(format, largest + log) };
}

// ---- Words

function brief(number) {
  const size = Math.abs(number);
  if (!Number.isFinite(number) || size === 0 || (size >= 0.001 && size < 1000)) {
    return shorten(number).replace(/^-0$/, "0");
  }
  return number.toExponential(1);
}

function values(numbers) {
  return numbers.map(brief).join(", ");
}

function named(numbers, isIt) {
  return list(NAMES.filter((_, k) => isIt(numbers[k])));
}

/** Return in two sentences what either way gives. */
export function describe(format, logits) {
  const [book, moved] = [byTheBook(format, logits), shifted(format, logits)];
  const begin = `${format}, logits ${list(logits.map(String))}. By the book, `;
  const end = ` Shifted by the largest, softmax is ${values(moved.softmax)}, and its logarithm ${values(moved.logSoftmax)}.`;
  const over = named(book.exp, (e) => e === Infinity);
  let told;
  if (over) told = `exp overflows for ${over}: softmax is ${values(book.softmax)}.`;
  else if (book.sum === Infinity) told = `the sum overflows: softmax is ${values(book.softmax)}.`;
  else if (book.sum === 0) told = "exp underflows for all three, and 0 / 0 is nan.";
  else if (book.softmax.includes(0)) {
    told = `softmax is ${values(book.softmax)}, and its logarithm is -inf for ${named(book.softmax, (p) => p === 0)}.`;
  } else if (book.softmax.some((p, k) => Math.abs(p - moved.softmax[k]) > 0.01)) {
    told = `exp is subnormal and has lost digits: softmax is ${values(book.softmax)}.`;
  } else told = "nothing leaves the range.";
  return begin + told + end;
}

// ---- The page

function toX(z) {
  const share = (Math.min(Math.max(z, LEAST), MOST) - LEAST) / (MOST - LEAST);
  return SIDE + share * (WIDTH - 2 * SIDE);
}

function toLogit(x) {
  const z = LEAST + ((x - SIDE) / (WIDTH - 2 * SIDE)) * (MOST - LEAST);
  return Math.min(Math.max(Math.round(z), LEAST), MOST);
}

function fate(e) {
  return e === Infinity ? "bits-over" : e === 0 ? "bits-under" : "bits-in";
}

function kindOf(number, wasZero) {
  if (!Number.isFinite(number)) return "bits-over";
  return wasZero && number === 0 ? "bits-under" : "";
}

/** Make one way of computing: its number line, and its table. */
function buildWay(title, isMovable) {
  const whole = makeSvg("rect", { y: TOP, height: BASE - TOP, class: "bits-safe" });
  const subnormal = makeSvg("rect", { y: TOP, height: BASE - TOP, class: "bits-subnormal" });
  const axis = makeSvg("path", { d: `M0 ${BASE} H${WIDTH}`, class: "bits-axis" });
  const ticks = TICKS.map((z) => makeSvg("text", { x: toX(z), y: BASE + 18, "text-anchor": "middle" }, String(z)));
  const ends = ["exp is 0", "exp is inf"].map((text) => makeSvg("text", { y: TOP - 8 }, text));
  const marks = NAMES.map((name, k) => makeSvg(
    "g", isMovable
      ? { class: "bits-logit", role: "slider", tabindex: 0, "data-place": k, "aria-label": `logit ${name}`, "aria-valuemin": LEAST, "aria-valuemax": MOST }
      : { class: "bits-logit" },
    makeSvg("circle", { r: RADIUS }), makeSvg("text", { y: 5, "text-anchor": "middle" }, name),
  ));
  const picture = makeSvg(
    "svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "bits-line", role: isMovable ? "group" : "img", "aria-label": `The number line, ${title}` },
    whole, subnormal, axis, ...ticks, ...ends, ...marks,
  );
  const cell = (text, role) => make("span", { role }, text);
  const row = (label, cells) => make("div", { class: "bits-row", role: "row" }, cell(label, "rowheader"), ...cells);
  const cells = {};
  for (const name of ["z", "exp", "softmax", "logSoftmax", "logSumExp"]) {
    cells[name] = [0, 1, 2, 3].map(() => cell("", "cell"));
  }
  const head = row("", [...NAMES, "sum"].map((name) => cell(name, "columnheader")));
  const labels = { z: isMovable ? "z" : "z − max", exp: "exp", softmax: "softmax", logSoftmax: "its log", logSumExp: "log-sum-exp" };
  const table = make(
    "div", { class: "bits-values", role: "table", "aria-label": title },
    head, ...Object.entries(labels).map(([name, label]) => row(label, cells[name])),
  );
  const node = make("div", { class: "bits-way" }, make("p", { class: "bits-title" }, title), picture, table);

  function draw(format, found) {
    const { low, normal, high } = windowOf(format);
    set(whole, { x: toX(low), width: toX(high) - toX(low) });
    set(subnormal, { x: toX(low), width: toX(normal) - toX(low) });
    set(ends[0], { x: toX(low), "text-anchor": "end" });
    set(ends[1], { x: toX(high), "text-anchor": toX(high) > WIDTH - 90 ? "end" : "start" });
    for (const [k, mark] of marks.entries()) {
      mark.setAttribute("transform", `translate(${toX(found.z[k])} ${TOP + 18 + k * LANE})`);
      mark.setAttribute("class", `bits-logit ${fate(found.exp[k])}`);
      if (isMovable) set(mark, { "aria-valuenow": found.z[k], "aria-valuetext": `${found.z[k]}` });
    }
    const last = { exp: found.sum, logSumExp: found.logSumExp };
    for (const [name, row] of Object.entries(cells)) {
      const numbers = [...(found[name].length ? found[name] : [null, null, null]), last[name] ?? null];
      for (const [k, place] of row.entries()) {
        const number = numbers[k];
        place.textContent = number === null ? "" : brief(number);
        place.className = number === null ? "" : kindOf(number, name !== "z" && name !== "logSoftmax" && name !== "logSumExp");
      }
    }
  }
  return { node, picture, marks, draw };
}

/** Fill `place` with two number lines that start from {format, logits}. `onChange` hears of each change. */
export function mount(place, start, onChange = () => {}) {
  const id = uniqueId("logits");
  let { format, logits } = start;
  const choice = make("select", { id: `${id}-format` });
  for (const name of OFFERED) choice.append(make("option", { value: name }, name));
  const up = make("button", { type: "button" }, "All up by 10");
  const down = make("button", { type: "button" }, "All down by 10");
  const again = make("button", { type: "button" }, "Start again");
  const said = make("p", { class: "bits-said", role: "status" });
  const controls = make("div", { class: "bits-controls" }, make("label", { for: choice.id }, "Format ", choice), up, down, again);
  const book = buildWay("By the book", true);
  const moved = buildWay("Shifted by the largest", false);

  function change(next) {
    ({ format = format, logits = logits } = next);
    draw();
    onChange({ format, logits });
  }

  function draw() {
    book.draw(format, byTheBook(format, logits));
    moved.draw(format, shifted(format, logits));
    choice.value = format;
    up.disabled = Math.max(...logits) + 10 > MOST;
    down.disabled = Math.min(...logits) - 10 < LEAST;
    said.textContent = describe(format, logits);
  }

  function move(k, z) {
    const next = Math.min(Math.max(z, LEAST), MOST);
    if (next !== logits[k]) change({ logits: logits.with(k, next) });
  }

  book.picture.addEventListener("keydown", (event) => {
    const k = Number(event.target.closest(".bits-logit")?.dataset.place ?? NaN);
    const moves = {
      ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10,
      Home: LEAST - MOST, End: MOST - LEAST,
    };
    if (Number.isNaN(k) || !(event.key in moves)) return;
    event.preventDefault();
    move(k, logits[k] + moves[event.key]);
  });
  let dragged = null;
  book.picture.addEventListener("pointerdown", (event) => {
    const mark = event.target.closest(".bits-logit");
    if (!mark) return;
    event.preventDefault();
    dragged = Number(mark.dataset.place);
    mark.focus();
    book.picture.setPointerCapture(event.pointerId);
  });
  book.picture.addEventListener("pointermove", (event) => {
    if (dragged === null) return;
    const box = book.picture.getBoundingClientRect();
    move(dragged, toLogit(((event.clientX - box.left) / box.width) * WIDTH));
  });
  for (const end of ["pointerup", "pointercancel"]) {
    book.picture.addEventListener(end, () => (dragged = null));
  }
  choice.addEventListener("change", () => change({ format: choice.value }));
  up.addEventListener("click", () => change({ logits: logits.map((z) => z + 10) }));
  down.addEventListener("click", () => change({ logits: logits.map((z) => z - 10) }));
  again.addEventListener("click", () => change(start));

  claim(place, "Softmax of three logits, by the book and shifted");
  place.replaceChildren(controls, make("div", { class: "bits-ways" }, book.node, moved.node), said);
  draw();
  return {
    show(next) {
      if (JSON.stringify(next) === JSON.stringify({ format, logits })) return;
      ({ format, logits } = next);
      draw();
    },
  };
}
