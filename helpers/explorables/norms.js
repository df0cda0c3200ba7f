// The norms: a tensor (N, C, L), which of its entries share statistics, and what becomes of them.

const NORMS = {
  batch: "BatchNorm",
  instance: "InstanceNorm",
  group: "GroupNorm",
  layer: "LayerNorm((C, L))",
  features: "LayerNorm(C), channels last",
  rms: "RMSNorm(C), channels last",
};
const MODES = { train: "training", eval: "evaluation" };
const EPS = 1e-5;
const [LOWEST, HIGHEST, STEP] = [-10, 50, 0.5]; // what the chosen entry can be set to
const VISIBLE = 0.005; // the smallest change that two decimals can show
const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9"];

// ---- Numbers

/** Return the sizes of the tensor: examples in the batch, channels, positions. */
function sizes({ values, batch }) {
  return [batch, values[0].length, values[0][0].length];
}

/** Return the numbers of groups that a number of channels can be divided into. */
export function divisors(channels) {
  return [...Array(channels).keys()].map((k) => k + 1).filter((k) => channels % k === 0);
}

/** Return the number of the group that entry [n, c, l] belongs to. */
export function groupOf(state, [n, c, l]) {
  const [, channels, positions] = sizes(state);
  const parts = { batch: c, instance: n * channels + c, layer: n };
  parts.group = n * state.groups + Math.floor((c * state.groups) / channels);
  parts.features = parts.rms = n * positions + l;
  return parts[state.norm];
}

function eachEntry(state, visit) {
  const [batch, channels, positions] = sizes(state);
  for (let n = 0; n < batch; n++) {
    for (let c = 0; c < channels; c++) for (let l = 0; l < positions; l++) visit([n, c, l]);
  }
}

function usesStored({ norm, mode }) {
  return norm === "batch" && mode === "eval";
}

function statisticsOf(numbers, isRms, correction = 0) {
  const mean = isRms ? 0 : numbers.reduce((sum, x) => sum + x, 0) / numbers.length;
  const squares = numbers.reduce((sum, x) => sum + (x - mean) ** 2, 0);
  return { count: numbers.length, mean, variance: squares / (numbers.length - correction) };
}

/** Return, for each group, {count, mean, variance}; `value` stands in the place of the chosen entry. */
export function statistics(state, value = state.value) {
  const groups = new Map();
  const chosen = state.entry.join();
  // In evaluation mode, what is stored: the statistics of all examples as they were.
  const from = usesStored(state) ? { ...state, batch: state.values.length } : state;
  eachEntry(from, ([n, c, l]) => {
    const isChosen = !usesStored(state) && [n, c, l].join() === chosen;
    const group = groupOf(from, [n, c, l]);
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group).push(isChosen ? value : state.values[n][c][l]);
  });
  const correction = usesStored(state) ? 1 : 0; // running variances are unbiased
  return [...groups.entries()]
    .sort(([one], [other]) => one - other)
    .map(([, numbers]) => statisticsOf(numbers, state.norm === "rms", correction));
}

/** Return the normalized entries, as nested as the tensor. */
export function normalizeAll(state, value = state.value) {
  const found = statistics(state, value);
  const [batch, channels, positions] = sizes(state);
  const result = Array.from({ length: batch }, () =>
    Array.from({ length: channels }, () => Array(positions).fill(0)),
  );
  eachEntry(state, ([n, c, l]) => {
    const { mean, variance } = found[groupOf(state, [n, c, l])];
    const x = [n, c, l].join() === state.entry.join() ? value : state.values[n][c][l];
    result[n][c][l] = (x - mean) / Math.sqrt(variance + EPS);
  });
  return result;
}

/** Return how many other outputs change with the chosen entry, and by how much at most. */
export function effect(state) {
  const [n, c, l] = state.entry;
  const now = normalizeAll(state);
  const before = normalizeAll(state, state.values[n][c][l]);
  const found = { count: 0, most: 0 };
  eachEntry(state, (entry) => {
    if (entry.join() === state.entry.join()) return;
    const [i, j, k] = entry;
    const change = Math.abs(now[i][j][k] - before[i][j][k]);
    if (change > VISIBLE) found.count += 1;
    found.most = Math.max(found.most, change);
  });
  return found;
}

// ---- Words

function nameGroup(state) {
  const [n, c, l] = state.entry;
  const channels = state.values[0].length;
  if (state.norm === "batch") {
    return `channel ${c}, ${state.batch === 1 ? "of the only example" : `of all ${state.batch} examples`}`;
  }
  if (state.norm === "layer") return `all of example ${n}`;
  if (state.norm === "instance") return `channel ${c} of example ${n}`;
  if (state.norm !== "group") return `all channels of example ${n} at position ${l}`;
  const size = channels / state.groups;
  const first = Math.floor(c / size) * size;
  if (size === channels) return `all of example ${n}`;
  return size === 1
    ? `channel ${c} of example ${n}`
    : `channels ${first} to ${first + size - 1} of example ${n}`;
}

export function describe(state) {
  const [n, c, l] = state.entry;
  const { count, mean, variance } = statistics(state)[groupOf(state, state.entry)];
  const output = normalizeAll(state)[n][c][l];
  const spread = shorten(Math.sqrt(variance));
  const told = [];
  if (usesStored(state)) {
    told.push(
      `The stored statistics of channel ${c} are used: mean ${shorten(mean)}, standard deviation ${spread}.`,
    );
  } else if (state.norm === "rms") {
    told.push(`${count} entries share a root mean square: ${nameGroup(state)}. It is ${spread}.`);
  } else {
    told.push(
      `${count} entries share a mean: ${nameGroup(state)}. It is ${shorten(mean)}, and their standard deviation is ${spread}.`,
    );
  }
  told.push(`The chosen entry, ${shorten(state.value)}, becomes ${shorten(output)}.`);
  const before = state.values[n][c][l];
  if (before !== state.value) {
    const { count: others, most } = effect(state);
    const them = others === 1 ? "1 other output" : `${others} other outputs`;
    told.push(
      others
        ? `Since it was changed from ${shorten(before)}, ${them} changed, by ${shorten(most)} at most.`
        : `It was changed from ${shorten(before)}, and no other output changed.`,
    );
  }
  return told.join(" ");
}

/** Return a number as an entry shows it: in five characters. */
export function write(number, digits) {
  const text = number.toFixed(digits);
  if (text.length > 5 && digits) return write(number, digits - 1);
  return /^-[0.]+$/.test(text) ? text.slice(1) : text;
}

// ---- The page

function paint(group, count) {
  if (count <= PALETTE.length) return `${PALETTE[group]}40`;
  return `hsl(${(group * 137) % 360} 85% 50% / 28%)`;
}

/** Fill `place` with a tensor that starts from `start`. `onChange` hears of each change. */
export function mount(place, start, onChange = () => {}) {
  const id = uniqueId("norms");
  let state = start;
  const { values } = start;
  const [channels, positions] = [values[0].length, values[0][0].length];
  const counts = divisors(channels);

  function makeChoice(name, label, options) {
    const node = make("select", { id: `${id}-${name}` });
    for (const [value, text] of Object.entries(options)) node.append(make("option", { value }, text));
    return [node, make("label", { for: node.id }, label, make("br"), node)];
  }
  function makeSlider(name, label, range) {
    const node = make("input", { id: `${id}-${name}`, type: "range", ...range });
    const told = make("span", { class: "bits-set-to" });
    return [node, told, make("label", { for: node.id }, label, " ", told, make("br"), node)];
  }
  const [norm, normLabel] = makeChoice("norm", "Norm", NORMS);
  const [mode, modeLabel] = makeChoice("mode", "Mode", MODES);
  const [batch, batchTold, batchLabel] = makeSlider("batch", "Batch size", { min: 1, max: values.length, step: 1 });
  const [groups, groupsTold, groupsLabel] = makeSlider("groups", "Groups", { min: 0, max: counts.length - 1, step: 1 });
  const [value, valueTold, valueLabel] = makeSlider("value", "Chosen entry", { min: LOWEST, max: HIGHEST, step: STEP });
  const again = make("button", { type: "button" }, "Start again");
  const controls = make(
    "div", { class: "bits-controls bits-norm-controls" },
    normLabel, modeLabel, batchLabel, groupsLabel, valueLabel, again,
  );
  const inputs = makeTensor("radio");
  const outputs = makeTensor("");
  const said = make("p", { class: "bits-said", role: "status" });
  inputs.node.setAttribute("role", "radiogroup");
  inputs.node.setAttribute("aria-label", "The tensor before the norm; choose an entry");
  outputs.node.setAttribute("aria-label", "The tensor after the norm");
  outputs.node.setAttribute("role", "group");

  function makeTensor(role) {
    const entries = [];
    const blocks = values.map((example, n) => {
      const cells = example.flatMap((row, c) =>
        row.map((_, l) => {
          const cell = make("span", { class: "bits-entry" });
          if (role) set(cell, { role, "data-entry": `${n},${c},${l}` });
          entries.push({ cell, entry: [n, c, l] });
          return cell;
        }),
      );
      const title = make("span", { class: "bits-example-name" }, `example ${n}`);
      return make("div", { class: "bits-example" }, title, make("div", { class: "bits-entries" }, ...cells));
    });
    return { node: make("div", { class: "bits-tensor" }, ...blocks), blocks, entries };
  }

  function original([n, c, l]) {
    return values[n][c][l];
  }

  function change(next) {
    state = { ...state, ...next };
    if (state.entry[0] >= state.batch) {
      const entry = [state.batch - 1, ...state.entry.slice(1)];
      state = { ...state, entry, value: original(entry) };
    }
    draw();
    onChange(state);
  }

  function choose(entry) {
    change({ entry, value: original(entry) });
    inputs.entries.find(({ cell }) => cell.tabIndex === 0).cell.focus();
  }

  function draw() {
    const results = normalizeAll(state);
    const count = statistics(state).length;
    const own = groupOf(state, state.entry);
    for (const [tensor, digits] of [[inputs, 1], [outputs, 2]]) {
      tensor.blocks.forEach((block, n) => (block.hidden = n >= state.batch));
      for (const { cell, entry } of tensor.entries) {
        const [n, c, l] = entry;
        if (n >= state.batch) continue;
        const isChosen = entry.join() === state.entry.join();
        const x = isChosen ? state.value : original(entry);
        const number = tensor === inputs ? x : results[n][c][l];
        cell.textContent = write(number, digits);
        cell.style.background = paint(groupOf(state, entry), count);
        const shares = groupOf(state, entry) === own && !usesStored(state);
        cell.classList.toggle("bits-shares", shares);
        cell.classList.toggle("bits-chosen", isChosen);
        if (tensor !== inputs) continue;
        cell.tabIndex = isChosen ? 0 : -1;
        set(cell, {
          "aria-checked": isChosen,
          "aria-label": `example ${n}, channel ${c}, position ${l}: ${shorten(x)}`,
        });
      }
    }
    norm.value = state.norm;
    mode.value = state.mode;
    mode.disabled = state.norm !== "batch";
    batch.value = batchTold.textContent = state.batch;
    groups.value = counts.indexOf(state.groups);
    groupsTold.textContent = state.groups;
    groups.setAttribute("aria-valuetext", `${state.groups}`);
    groups.disabled = state.norm !== "group";
    value.value = state.value;
    valueTold.textContent = write(state.value, 1);
    said.textContent = describe(state);
  }

  inputs.node.addEventListener("click", (event) => {
    const chosen = event.target.closest(".bits-entry");
    if (chosen) choose(chosen.dataset.entry.split(",").map(Number));
  });
  inputs.node.addEventListener("keydown", (event) => {
    const [n, c, l] = state.entry;
    const to = {
      ArrowLeft: [n, c, l - 1], ArrowRight: [n, c, l + 1], ArrowUp: [n, c - 1, l],
      ArrowDown: [n, c + 1, l], PageUp: [n - 1, c, l], PageDown: [n + 1, c, l],
    }[event.key];
    if (!to || !event.target.closest(".bits-entry")) return;
    event.preventDefault();
    const limits = [state.batch, channels, positions];
    if (to.every((k, axis) => k >= 0 && k < limits[axis])) choose(to);
  });
  norm.addEventListener("change", () => change({ norm: norm.value }));
  mode.addEventListener("change", () => change({ mode: mode.value }));
  batch.addEventListener("input", () => change({ batch: Number(batch.value) }));
  groups.addEventListener("input", () => change({ groups: counts[Number(groups.value)] }));
  value.addEventListener("input", () => change({ value: Number(value.value) }));
  again.addEventListener("click", () => change(start));

  claim(place, "A tensor and its norms");
  place.replaceChildren(
    controls,
    make("p", { class: "bits-tensor-name" }, "before the norm"), inputs.node,
    make("p", { class: "bits-tensor-name" }, "after the norm"), outputs.node,
    said,
  );
  draw();
  return {
    show(next) {
      if (JSON.stringify(next) === JSON.stringify(state)) return;
      state = next;
      draw();
    },
  };
}
