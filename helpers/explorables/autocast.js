// A small network in autocast regions: which dtype goes into each operation, and which computes.

// Each operation, and what it takes besides its input. That tensor is float32.
const LAYERS = [
  ["linear", "weight"], ["layer_norm", ""], ["gelu", ""],
  ["linear", "weight"], ["softmax", ""], ["mse_loss", "target"],
];
const POLICIES = {
  cpu: { linear: "lower", mse_loss: "float32" },
  cuda: { linear: "lower", mse_loss: "float32", layer_norm: "float32", softmax: "float32" },
};
const MARKS = { none: "none", region: "autocast", disabled: "disabled" };
const BRUSHES = { region: "the autocast region", disabled: "a disabled region", none: "no region" };
const KINDS = { cpu: "CPU", cuda: "CUDA" };
const LOWER = { bfloat16: "bfloat16", float16: "float16" };
const [WIDTH, ROW, TOP] = [480, 76, 30];

// ---- Dtypes

/** Return what happens in each operation to an input that is float32. */
export function follow(marks, device, lower) {
  let given = "float32";
  return LAYERS.map(([name, other], k) => {
    if (!given) return { given: "", casts: [], computes: "" };
    const policy = (marks[k] === "region" && POLICIES[device][name]) || "widest";
    let computes = { lower, float32: "float32", widest: given }[policy];
    // Type promotion widens what goes into a loss; a product has to get equal dtypes.
    if (policy === "widest" && other && given !== "float32") computes = other === "target" ? "float32" : "";
    const inputs = [["input", given], ...(other ? [[other, "float32"]] : [])];
    const casts = inputs
      .filter(([, dtype]) => policy !== "widest" && dtype !== computes)
      .map(([what, dtype]) => `${what} ${dtype} → ${computes}`);
    const step = { given, casts, computes };
    given = computes;
    return step;
  });
}

export function describe(marks, device, lower) {
  const steps = follow(marks, device, lower);
  const told = steps.flatMap(({ given, computes }, k) => {
    if (!given) return [];
    return computes ? `${LAYERS[k][0]} computes in ${computes}` : `${LAYERS[k][0]} raises an error`;
  });
  const count = steps.reduce((sum, { casts }) => sum + casts.length, 0);
  const regions = marks.includes("region") ? `${lower} region` : "no region";
  return `${KINDS[device]}, ${regions}, ${count} cast${count === 1 ? "" : "s"}: ${told.join(", ")}.`;
}

/** Return the first and the last place of each run of true flags. */
function runs(flags) {
  const found = [];
  flags.forEach((flag, k) => {
    if (flag && !flags[k - 1]) found.push([k, k]);
    else if (flag) found.at(-1)[1] = k;
  });
  return found;
}

// ---- The page

function text(x, y, words, attributes = {}) {
  return makeSvg("text", { x, y, ...attributes }, words);
}

function arrow(y, words) {
  return [
    makeSvg("path", { d: `M165 ${y - 10} V${y + 18} m-4 -7 l4 7 l4 -7`, class: "bits-arrow" }),
    text(176, y + 6, words),
  ];
}

function frame(name, [first, last], x, y) {
  const top = TOP + first * ROW + y;
  const bottom = TOP + last * ROW + 86 - y;
  return makeSvg("rect", {
    x, y: top, width: WIDTH - 4 - 2 * x + 72, height: bottom - top, rx: 8, class: name,
  });
}

function drawFrames(marks) {
  const around = runs(marks.map((mark) => mark !== "none"))
    .filter(([first, last]) => marks.slice(first, last + 1).includes("region"));
  const disabled = runs(marks.map((mark) => mark === "disabled"));
  return [
    ...around.map((run) => frame("bits-region", run, 72, 14)),
    ...disabled.map((run) => frame("bits-disabled", run, 79, 17)),
  ];
}

function drawRow(k, { given, casts, computes }) {
  const y = TOP + k * ROW;
  const kind = computes || (given ? "fails" : "unreached");
  const told = computes ? `in ${computes}` : given ? "error" : "not reached";
  return [
    ...arrow(y, k ? given : `x: ${given}`),
    makeSvg("rect", { x: 90, y: y + 20, width: 150, height: 46, rx: 5, class: `bits-box bits-${kind}`, "data-row": k }),
    text(165, y + 39, LAYERS[k][0], { "text-anchor": "middle", class: "bits-name" }),
    text(165, y + 58, told, { "text-anchor": "middle" }),
    ...casts.map((cast, line) => text(250, y + 39 + 19 * line, cast, { class: "bits-cast" })),
  ];
}

function chooser(id, label, options) {
  const select = make("select", { id });
  for (const [name, words] of Object.entries(options)) select.append(make("option", { value: name }, words));
  return [select, make("label", { for: id }, `${label} `, select)];
}

/** Fill `place` with the network, in regions that start from {marks, device, lower}. */
export function mount(place, start, onChange = () => {}) {
  const id = uniqueId("autocast");
  let { marks, device, lower } = start;
  const [devices, devicesLabel] = chooser(`${id}-device`, "Policies of", KINDS);
  const [dtypes, dtypesLabel] = chooser(`${id}-lower`, "The region's dtype", LOWER);
  const [brush, brushLabel] = chooser(`${id}-brush`, "Draw", BRUSHES);
  const clear = make("button", { type: "button" }, "Clear");
  const controls = make(
    "div", { class: "bits-controls" }, devicesLabel, dtypesLabel, brushLabel, clear,
  );
  const said = make("p", { class: "bits-said", role: "status" });
  const end = TOP + ROW * LAYERS.length + 8;
  const picture = makeSvg("svg", {
    viewBox: `0 0 ${WIDTH} ${end + 20}`, class: "bits-autocast", role: "group",
    "aria-label": "A column of six operations, with the regions around them",
  });
  // What is drawn with stays in the page: a finger is lost with what it touched.
  const cells = LAYERS.map((_, k) => {
    const y = TOP + k * ROW;
    return makeSvg(
      "g", { class: "bits-cell", role: "button", tabindex: 0, "data-row": k },
      makeSvg("rect", { x: 2, y: y + 20, width: 66, height: 46, rx: 5, class: "bits-mark" }),
      text(35, y + 48, "", { "text-anchor": "middle" }),
    );
  });
  const [frames, rows] = [makeSvg("g"), makeSvg("g")];
  picture.append(frames, ...cells, rows);

  function change(next) {
    ({ marks = marks, device = device, lower = lower } = next);
    draw();
    onChange({ marks, device, lower });
  }

  function paint(row) {
    if (marks[row] !== brush.value) change({ marks: marks.with(row, brush.value) });
  }

  function draw() {
    const steps = follow(marks, device, lower);
    frames.replaceChildren(...drawFrames(marks));
    const result = steps.at(-1).computes;
    rows.replaceChildren(
      ...steps.flatMap((step, k) => drawRow(k, step)), ...arrow(end, result ? `loss: ${result}` : ""),
    );
    cells.forEach((cell, k) => {
      cell.lastChild.textContent = MARKS[marks[k]];
      cell.setAttribute("aria-label", `${LAYERS[k][0]}, operation ${k + 1}: ${BRUSHES[marks[k]]}`);
    });
    [devices.value, dtypes.value] = [device, lower];
    said.textContent = describe(marks, device, lower);
  }

  const rowOf = (target) => Number(target.closest("[data-row]")?.dataset.row ?? NaN);
  let drawing = false;
  picture.addEventListener("pointerdown", (event) => {
    const cell = event.target.closest(".bits-cell");
    if (!cell) return;
    event.preventDefault();
    drawing = true;
    cell.focus();
    picture.setPointerCapture(event.pointerId);
    paint(rowOf(cell));
  });
  picture.addEventListener("pointermove", (event) => {
    if (!drawing) return;
    const box = picture.getBoundingClientRect();
    const y = ((event.clientY - box.top) / box.height) * (end + 20);
    paint(Math.min(Math.max(Math.floor((y - TOP - 5) / ROW), 0), LAYERS.length - 1));
  });
  for (const last of ["pointerup", "pointercancel"]) {
    picture.addEventListener(last, () => (drawing = false));
  }
  picture.addEventListener("click", (event) => {
    if (event.target.closest(".bits-box")) paint(rowOf(event.target));
  });
  picture.addEventListener("keydown", (event) => {
    const row = rowOf(event.target);
    if (Number.isNaN(row) || ![" ", "Enter"].includes(event.key)) return;
    event.preventDefault();
    paint(row);
  });
  devices.addEventListener("change", () => change({ device: devices.value }));
  dtypes.addEventListener("change", () => change({ lower: dtypes.value }));
  clear.addEventListener("click", () => change({ marks: LAYERS.map(() => "none") }));

  claim(place, "A small network in autocast regions");
  place.replaceChildren(controls, picture, said);
  draw();
  return {
    show(next) {
      if (JSON.stringify(next) === JSON.stringify({ marks, device, lower })) return;
      ({ marks, device, lower } = next);
      draw();
    },
  };
}
