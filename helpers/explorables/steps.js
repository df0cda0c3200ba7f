// The calls around an optimizer step, in an order that the reader changes, over four windows.

const CALLS = {
  backward: "scaler.scale(loss).backward()",
  unscale: "scaler.unscale_(optimizer)",
  clip: "clip_grad_norm_(parameters, 1.0)",
  step: "scaler.step(optimizer)",
  update: "scaler.update()",
  schedule: "if stepped: scheduler.step()",
  clear: "optimizer.zero_grad()",
};
const RIGHT = Object.keys(CALLS);
const GRADIENTS = [0.5, 4, 2, 0.8]; // one weight's, in one window after the other
const SCALE = 1024;
const MOST_NORM = 1;
const RATE = 0.1;
const DECAY = 0.5; // of the rate, at each step of the schedule
const [LEAST, MOST] = [2 ** -5, 2 ** 13]; // where a bar is empty, and where it is full

// ---- Numbers

const ERRORS = {
  unscale: "Attempted unscale_ but _scale is None.",
  step: "Attempted step but _scale is None.",
  update: "Attempted update but _scale is None.",
  late: "unscale_() is being called after step().",
  twice: "unscale_() has already been called on this optimizer since the last update().",
  again: "step() has already been called since the last update().",
  noGradient: "No inf checks were recorded for this optimizer.",
  noCheck: "No inf checks were recorded prior to update.",
};

/** What a call does, as torch 2 has it: each changes `now` and returns what is to be told. */
const DO = {
  backward(now, gradient) {
    now.hasScale = true;
    now.grad = (now.grad ?? 0) + now.scale * gradient;
    return { kind: "grad" };
  },
  unscale(now) {
    if (!now.hasScale) throw new Error(ERRORS.unscale);
    if (now.stage === "unscaled") throw new Error(ERRORS.twice);
    if (now.stage === "stepped") throw new Error(ERRORS.late);
    if (now.grad !== null) {
      now.grad /= now.scale;
      now.foundInf = !Number.isFinite(now.grad);
    }
    now.stage = "unscaled";
    return { kind: "grad" };
  },
  clip(now) {
    const norm = Math.abs(now.grad ?? 0);
    if (now.grad !== null) now.grad *= Math.min(1, MOST_NORM / (norm + 1e-6));
    return { kind: "norm", value: norm };
  },
  step(now) {
    if (!now.hasScale) throw new Error(ERRORS.step);
    if (now.stage === "stepped") throw new Error(ERRORS.again);
    if (now.stage === "ready") DO.unscale(now);
    if (now.foundInf === null) throw new Error(ERRORS.noGradient);
    const move = now.foundInf ? null : now.rate * (now.grad ?? 0);
    now.stage = "stepped";
    return { kind: "move", value: move };
  },
  update(now) {
    if (!now.hasScale) throw new Error(ERRORS.update);
    if (now.foundInf === null) throw new Error(ERRORS.noCheck);
    if (now.foundInf) now.scale /= 2;
    now.stage = "ready";
    now.foundInf = null;
    return { kind: "scale", value: now.scale };
  },
  schedule(now) {
    if (now.scale < now.scaleBefore) return { kind: "rate", value: null };
    now.rate *= DECAY;
    return { kind: "rate", value: now.rate };
  },
  clear(now) {
    now.grad = null;
    return { kind: "grad" };
  },
};

/**
 * Return for each window what each call of `order` leaves behind: {call, kind, value, grad}, with
 * null for what is none. The gradient of window `inf`, counted from 1, is infinite. The last entry
 * of a run that ends early is {call, error}.
 */
export function run(order, inf) {
  const now = {
    grad: null, scale: SCALE, rate: RATE, stage: "ready", foundInf: null, hasScale: false,
  };
  const windows = [];
  for (const [number, gradient] of GRADIENTS.entries()) {
    now.scaleBefore = now.scale;
    const entries = [];
    windows.push(entries);
    for (const call of order) {
      try {
        const told = DO[call](now, number + 1 === inf ? Infinity : gradient);
        entries.push({ call, value: now.grad, ...told, grad: now.grad });
      } catch (error) {
        entries.push({ call, error: error.message });
        return windows;
      }
    }
  }
  return windows;
}

/** Return `order` with the call at place `from` moved to place `to`. */
export function moveCall(order, from, to) {
  const place = Math.min(Math.max(to, 0), order.length - 1);
  const rest = order.filter((_, k) => k !== from);
  return [...rest.slice(0, place), order[from], ...rest.slice(place)];
}

// ---- Words

function short(number) {
  return number === null ? "none" : shorten(number);
}

function tellEntry({ kind, value, error }) {
  if (error) return "raises";
  if (kind === "move") return value === null ? "skipped" : `moves ${short(value)}`;
  if (kind === "rate" && value === null) return "waits";
  return `${{ grad: ".grad", norm: "norm", scale: "scale", rate: "rate" }[kind]} ${short(value)}`;
}

/** Return in a sentence where `order` first differs from the right one, by what it does. */
export function describe(order, inf) {
  const windows = run(order, inf);
  const right = run(RIGHT, inf);
  for (const [number, entries] of windows.entries()) {
    const window = `In window ${number + 1}`;
    const failed = entries.find((entry) => entry.error);
    if (failed) return `${window}, ${CALLS[failed.call]} raises “${failed.error}”`;
    for (const [kind, words] of [
      ["norm", (got, wanted) => `clipping sees the norm ${short(got)}, and the gradient’s is ${short(wanted)}.`],
      ["move", (got, wanted) => (got === null || wanted === null
        ? `the optimizer ${got === null ? "skips its step" : "steps"}, and it should ${wanted === null ? "skip" : "step"}.`
        : `the weight moves by ${short(got)}, and it should move by ${short(wanted)}.`)],
      ["rate", (got, wanted) => (wanted === null
        ? "no step is made, and the rate changes all the same."
        : `the rate becomes ${short(got)}, and it should become ${short(wanted)}.`)],
    ]) {
      const of = (all) => all.find((entry) => entry.kind === kind).value;
      const [got, wanted] = [of(entries), of(right[number])];
      if (!isSame(got, wanted)) return `${window}, ${words(got, wanted)}`;
    }
  }
  const skipped = inf ? ` Window ${inf} is skipped, the scale is halved, and the schedule waits.` : "";
  return `Every window does what it should.${skipped}`;
}

function isSame(one, other) {
  if (one === null || other === null || !Number.isFinite(one) || !Number.isFinite(other)) {
    return Object.is(one, other);
  }
  return Math.abs(one - other) <= 1e-5 * Math.max(Math.abs(one), Math.abs(other));
}

// ---- The page

function fillShare(grad) {
  if (grad === null || grad === undefined || grad === 0) return 0;
  if (!Number.isFinite(grad)) return 1;
  const share = Math.log2(Math.abs(grad) / LEAST) / Math.log2(MOST / LEAST);
  return Math.min(Math.max(share, 0.02), 1);
}

/** Fill `place` with a timeline that starts from {order, inf}. `onChange` hears of each change. */
export function mount(place, start, onChange = () => {}) {
  const id = uniqueId("steps");
  let { order, inf } = start;
  const choice = make("select", { id: `${id}-inf` });
  for (const k of [0, ...GRADIENTS.keys().map((k) => k + 1)]) {
    choice.append(make("option", { value: k }, k ? `in window ${k}` : "nowhere"));
  }
  const again = make("button", { type: "button" }, "Start again");
  const said = make("p", { class: "bits-said", role: "status" });
  const controls = make(
    "div", { class: "bits-controls" },
    make("label", { for: choice.id }, "An inf comes ", choice), again,
  );
  const rows = order.map((_, k) => buildRow(k));
  const head = make("div", { class: "bits-row bits-head" }, make("span", { class: "bits-call" }, "call"));
  for (const k of GRADIENTS.keys()) head.append(make("span", { class: "bits-cell" }, `window ${k + 1}`));
  const table = make("div", { class: "bits-steps" }, head, ...rows.map((row) => row.node));

  function buildRow(k) {
    const handle = make("span", {
      class: "bits-call bits-handle", role: "slider", tabindex: 0, "data-place": k,
      "aria-orientation": "vertical", "aria-valuemin": 1, "aria-valuemax": order.length,
    });
    const cells = GRADIENTS.map(() => make("span", { class: "bits-cell" }));
    return { handle, cells, node: make("div", { class: "bits-row" }, handle, ...cells) };
  }

  function change(next) {
    ({ order = order, inf = inf } = next);
    draw();
    onChange({ order, inf });
  }

  // The rows stay and take other texts: a finger is lost with what it touched.
  function draw() {
    const windows = run(order, inf);
    for (const [k, { handle, cells }] of rows.entries()) {
      handle.textContent = CALLS[order[k]];
      set(handle, {
        "aria-label": `place of ${CALLS[order[k]]}`, "aria-valuenow": k + 1,
        "aria-valuetext": `${k + 1} of ${order.length}`,
      });
      for (const [number, cell] of cells.entries()) {
        const entry = windows[number]?.[k];
        cell.textContent = entry ? tellEntry(entry) : "";
        cell.style.setProperty("--bits-share", `${100 * fillShare(entry?.grad)}%`);
        cell.classList.toggle("bits-raises", Boolean(entry?.error));
        cell.classList.toggle("bits-infinite", Boolean(entry) && entry.grad !== null && !Number.isFinite(entry.grad ?? 0));
      }
    }
    choice.value = inf;
    said.textContent = describe(order, inf);
    said.classList.toggle("bits-wrong", !said.textContent.startsWith("Every"));
  }

  function move(from, to) {
    const next = moveCall(order, from, to);
    const place = next.indexOf(order[from]);
    change({ order: next });
    rows[place].handle.focus();
    return place;
  }

  table.addEventListener("keydown", (event) => {
    const from = Number(event.target.closest(".bits-handle")?.dataset.place ?? NaN);
    const moves = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1, Home: -order.length, End: order.length };
    if (Number.isNaN(from) || !(event.key in moves)) return;
    event.preventDefault();
    move(from, from + moves[event.key]);
  });
  let dragged = null;
  table.addEventListener("pointerdown", (event) => {
    const handle = event.target.closest(".bits-handle");
    if (!handle) return;
    event.preventDefault();
    dragged = Number(handle.dataset.place);
    handle.focus();
    table.setPointerCapture(event.pointerId);
  });
  table.addEventListener("pointermove", (event) => {
    if (dragged === null) return;
    const to = rows.findIndex(({ node }) => event.clientY < node.getBoundingClientRect().bottom);
    const place = to < 0 ? rows.length - 1 : to;
    if (place !== dragged) dragged = move(dragged, place);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    table.addEventListener(end, () => (dragged = null));
  }
  choice.addEventListener("change", () => change({ inf: Number(choice.value) }));
  again.addEventListener("click", () => change(start));

  claim(place, "The order of the calls around an optimizer step");
  place.replaceChildren(controls, table, said);
  draw();
  return {
    show(next) {
      if (JSON.stringify(next) === JSON.stringify({ order, inf })) return;
      ({ order, inf } = next);
      draw();
    },
  };
}
