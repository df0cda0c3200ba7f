// Two shapes, aligned at the right: the broadcast, its strides, and the copies that are never made.

const MOST_AXES = 4;
const LARGEST = 999; // size of an axis
const BYTES = 4; // of a float32
const SHOWN = 6; // entries of an axis that are drawn
const EXAMPLES = [
  { label: "activations and a bias", first: [8, 30, 64], second: [64] },
  { label: "a matrix and a column", first: [3, 4], second: [3, 1] },
  { label: "a row and a column", first: [5], second: [4, 1] },
  { label: "images and a mean for each channel", first: [16, 3, 32, 32], second: [3, 1, 1] },
  { label: "images and a mean without its axes", first: [16, 3, 32, 32], second: [3] },
];
// The picture, in units of its own.
const [WIDTH, COLUMN, CELL, TOP] = [480, 160, 20, 24];
const [BAR, BAR_HEIGHT, FULL] = [206, 18, 476];
const HEIGHT = 300;

// ---- Numbers

/** Return {result, clash}: the shape of the broadcast, or null and the axis that does not fit. */
export function align(first, second) {
  const count = Math.max(first.length, second.length);
  const result = [];
  for (let k = 1; k <= count; k++) {
    const [a, b] = [first.at(-k), second.at(-k)].map((size, j) => (k > [first, second][j].length ? 1 : size));
    if (a !== b && a !== 1 && b !== 1) return { result: null, clash: count - k, sizes: [a, b] };
    result.unshift(a === 1 ? b : a);
  }
  return { result, clash: null, sizes: null };
}

/** Return the strides of a tensor of `shape` that has just been made. */
export function stridesOf(shape) {
  const strides = shape.map(() => 1);
  for (let k = shape.length - 2; k >= 0; k--) strides[k] = strides[k + 1] * Math.max(shape[k + 1], 1);
  return strides;
}

/** Return the strides of that tensor after `expand(result)`. */
export function expandedStrides(shape, result) {
  if (!shape.length) return result.map(() => 0);
  const [own, strides] = [stridesOf(shape), result.map(() => 1)];
  for (let k = result.length - 1; k >= 0; k--) {
    const place = k - (result.length - shape.length);
    const size = place >= 0 ? shape[place] : 1;
    if (place >= 0) strides[k] = own[place];
    else if (k + 1 < result.length) strides[k] = result[k + 1] * strides[k + 1];
    if (size !== result[k]) strides[k] = 0;
  }
  return strides;
}

function entries(shape) {
  return shape.reduce((product, size) => product * size, 1);
}

/** Return the bytes of both tensors, of the result, and of the copies that repeating would make. */
export function memoryOf(first, second) {
  const { result } = align(first, second);
  const [a, b] = [BYTES * entries(first), BYTES * entries(second)];
  if (!result) return { tensors: a + b, result: null, copies: null };
  const whole = BYTES * entries(result);
  const copied = [first, second].filter((shape) => shape.join() !== result.join());
  return { tensors: a + b, result: whole, copies: whole * copied.length };
}

// ---- Words

function sizeOf(bytes) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let size = bytes;
  while (size >= 1000 && units.length > 1) {
    size /= 1000;
    units.shift();
  }
  return `${shorten(size)} ${units[0]}`;
}

function tuple(shape) {
  return shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
}

/** Return in a few sentences what comes of two shapes. */
export function describe(first, second) {
  const { result, clash, sizes } = align(first, second);
  const both = `${tuple(first)} and ${tuple(second)}`;
  if (!result) {
    return [
      `${both} do not fit.`,
      `PyTorch raises: The size of tensor a (${sizes[0]}) must match the size of tensor b (${sizes[1]}) at non-singleton dimension ${clash}`,
    ];
  }
  const told = [first, second].map((shape) => tuple(expandedStrides(shape, result)));
  const { copies } = memoryOf(first, second);
  return [
    `${both} give ${tuple(result)}. Strides: ${told[0]} and ${told[1]}.`,
    copies
      ? `Repeating first would copy ${sizeOf(copies)}. Broadcasting copies nothing.`
      : "Nothing is repeated.",
  ];
}

// ---- The page

/** Return the rows and columns of the last two axes, and how often they stand behind one another. */
function sheetOf(result) {
  const [rows, columns] = [result.at(-2) ?? 1, result.at(-1) ?? 1];
  return { rows, columns, sheets: entries(result.slice(0, -2)) };
}

function drawSheet(column, name, shape, result) {
  const left = column * COLUMN;
  const nodes = [makeSvg("text", { x: left, y: 14 }, `${name} ${tuple(shape)}`)];
  const { rows, columns, sheets } = sheetOf(result);
  const strides = expandedStrides(shape, result);
  const [down, across] = [strides.at(-2) ?? 1, strides.at(-1) ?? 1];
  for (let i = 0; i < Math.min(rows, SHOWN); i++) {
    for (let j = 0; j < Math.min(columns, SHOWN); j++) {
      const isCopy = (i > 0 && down === 0) || (j > 0 && across === 0);
      nodes.push(makeSvg("rect", {
        x: left + 2 + j * CELL, y: TOP + i * CELL, width: CELL - 4, height: CELL - 4, rx: 2,
        class: isCopy ? "bits-copy" : "bits-stored",
      }));
    }
  }
  const dots = [columns > SHOWN ? "…" : "", rows > SHOWN ? "⋮" : ""];
  nodes.push(makeSvg("text", { x: left + 4 + SHOWN * CELL, y: TOP + 12 }, dots[0]));
  nodes.push(makeSvg("text", { x: left + 6, y: TOP + SHOWN * CELL + 12 }, dots[1]));
  if (sheets > 1) nodes.push(makeSvg("text", { x: left + 22, y: TOP + SHOWN * CELL + 14 }, `one of ${sheets}`));
  return nodes;
}

function drawBars(first, second) {
  const { tensors, result, copies } = memoryOf(first, second);
  const nodes = [];
  const most = Math.max(tensors + result + copies, 1);
  for (const [row, [label, parts]] of [
    ["broadcast", [["bits-stored", tensors], ["bits-result", result]]],
    ["repeat, then add", [["bits-stored", tensors], ["bits-waste", copies], ["bits-result", result]]],
  ].entries()) {
    const y = BAR + row * 48;
    const all = parts.reduce((sum, part) => sum + part[1], 0);
    nodes.push(makeSvg("text", { x: 0, y: y - 5 }, `${label}: ${sizeOf(all)}`));
    let x = 0;
    for (const [kind, bytes] of parts) {
      const width = (FULL * bytes) / most;
      nodes.push(makeSvg("rect", { x, y, width, height: BAR_HEIGHT, class: kind }));
      x += width;
    }
  }
  return nodes;
}

/** Return what the picture holds for two shapes. */
function drawPicture(first, second) {
  const { result } = align(first, second);
  if (!result) {
    const [x, y] = [0, 40];
    return [makeSvg("text", { x, y, class: "bits-error" }, "an error: no broadcast")];
  }
  return [
    ...drawSheet(0, "first", first, result), ...drawSheet(1, "second", second, result),
    ...drawSheet(2, "result", result, result), ...drawBars(first, second),
  ];
}

/** Make the row of one shape: a field for each axis, and buttons for the number of axes. */
function buildRow(name, change) {
  const fields = Array.from({ length: MOST_AXES }, (_, k) => make("input", {
    type: "number", min: 0, max: LARGEST, step: 1, inputmode: "numeric",
    "aria-label": `${name} shape, axis ${k - MOST_AXES}`,
  }));
  const missing = fields.map(() => make("span", { class: "bits-missing" }, "1"));
  const fewer = make("button", { type: "button", "aria-label": `${name} shape: one axis less` }, "−");
  const more = make("button", { type: "button", "aria-label": `${name} shape: one axis more` }, "+");
  const slots = fields.map((field, k) => make("span", { class: "bits-slot" }, field, missing[k]));
  const node = make(
    "div", { class: "bits-shape" }, make("span", { class: "bits-name" }, name),
    make("span", { class: "bits-axes" }, fewer, more), ...slots,
  );
  let shape = [];
  fewer.addEventListener("click", () => change(shape.slice(1)));
  more.addEventListener("click", () => change([2, ...shape]));
  for (const [k, field] of fields.entries()) {
    field.addEventListener("input", () => {
      const size = Number(field.value);
      if (field.value === "" || !Number.isInteger(size) || size < 0 || size > LARGEST) return;
      change(shape.map((old, j) => (j === k - MOST_AXES + shape.length ? size : old)));
    });
    field.addEventListener("blur", () => draw(shape, null, null));
  }

  function draw(next, result, clash) {
    shape = next;
    fewer.disabled = shape.length === 0;
    more.disabled = shape.length === MOST_AXES;
    for (const [k, field] of fields.entries()) {
      const place = k - MOST_AXES + shape.length;
      field.hidden = place < 0;
      missing[k].hidden = place >= 0;
      if (place >= 0 && (document.activeElement !== field || Number(field.value) !== shape[place])) field.value = shape[place];
      if (result === null && clash === null) continue;
      const at = k - MOST_AXES + (result ? result.length : clash.count);
      const isThere = at >= 0;
      const size = place >= 0 ? shape[place] : 1;
      const kind = !isThere ? "bits-none" : !result ? (at === clash.at ? "bits-clash" : "") : size === result[at] ? "" : "bits-repeated";
      slots[k].className = `bits-slot ${kind}`.trim();
    }
  }
  return { node, draw };
}

/** Fill `place` with two shapes that start from {first, second}; `onChange` hears of each change. */
export function mount(place, start, onChange = () => {}) {
  const id = uniqueId("broadcast");
  let { first, second } = start;
  const choice = make("select", { id: `${id}-example` }, make("option", { value: "" }, "…"));
  for (const [k, { label }] of EXAMPLES.entries()) choice.append(make("option", { value: k }, label));
  const rows = [
    buildRow("first", (shape) => change({ first: shape })),
    buildRow("second", (shape) => change({ second: shape })),
  ];
  const slots = Array.from({ length: MOST_AXES }, () => make("span", { class: "bits-slot" }));
  const outcome = make(
    "div", { class: "bits-shape" }, make("span", { class: "bits-name" }, "result"),
    make("span", { class: "bits-axes" }), ...slots,
  );
  const picture = makeSvg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "bits-sheets", role: "img",
    "aria-label": "Both tensors and their result: filled entries are stored, outlined ones are copies that are never made. Below, the memory of broadcasting and of repeating first.",
  });
  const said = make("div", { role: "status" });
  const lines = ["", ""].map(() => make("p", { class: "bits-said" }));
  said.append(...lines);
  const controls = make("div", { class: "bits-controls" }, make("label", { for: choice.id }, "Example: ", choice));

  function change(next) {
    ({ first = first, second = second } = next);
    draw();
    onChange({ first, second });
  }

  function draw() {
    const { result, clash } = align(first, second);
    const count = Math.max(first.length, second.length);
    rows[0].draw(first, result, { at: clash, count });
    rows[1].draw(second, result, { at: clash, count });
    for (const [k, slot] of slots.entries()) {
      const at = k - MOST_AXES + count;
      slot.textContent = at < 0 ? "" : result ? result[at] : at === clash ? "✗" : "";
      slot.className = `bits-slot ${at < 0 ? "bits-none" : at === clash ? "bits-clash" : ""}`.trim();
    }
    picture.replaceChildren(...drawPicture(first, second));
    describe(first, second).forEach((line, k) => (lines[k].textContent = line));
    const same = EXAMPLES.findIndex((one) => `${one.first};${one.second}` === `${first};${second}`);
    choice.value = same < 0 ? "" : same;
  }

  choice.addEventListener("change", () => {
    if (choice.value !== "") change({ first: EXAMPLES[choice.value].first, second: EXAMPLES[choice.value].second });
  });
  claim(place, "Two shapes and their broadcast");
  place.replaceChildren(controls, make("div", { class: "bits-shapes" }, rows[0].node, rows[1].node, outcome), picture, said);
  draw();
  return {
    show(next) {
      if (JSON.stringify(next) === JSON.stringify({ first, second })) return;
      ({ first, second } = next);
      draw();
    },
  };
}
