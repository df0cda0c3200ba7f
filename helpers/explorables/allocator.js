// A GPU's memory under PyTorch's caching allocator: segments, blocks, and events replayed on them.
// Source: c10/cuda/CUDACachingAllocator.cpp (PyTorch), with its settings as they come.

const KIB = 2 ** 10;
const MIB = 2 ** 20;
const SMALLEST_BLOCK = 512;
const SMALL = MIB; // the largest allocation of the small pool
const SMALL_SEGMENT = 2 * MIB;
const LARGE_SEGMENT = 20 * MIB;
const SHARES_A_SEGMENT = 10 * MIB; // from this size on, an allocation has a segment of its own size
const ROUND_LARGE = 2 * MIB;
const CAPACITY = 80; // MiB, of the examples
const WIDTH = 640;
const LEFT = 96;
const ROW = 38;
const MOST_ROWS = 10;
const CHART = 96;
const LETTER = 12;

const letters = (count, size) => Array.from("abcdefghi".slice(0, count), (name) => ["+", name, size]);
const frees = (names) => Array.from(names, (name) => ["-", name]);
export const EXAMPLES = {
  second: [...letters(8, 8 * MIB), ...frees("aceg"), ["+", "i", 16 * MIB]],
  first: [...letters(8, 8 * MIB), ...frees("abcd"), ["+", "i", 16 * MIB]],
  growing: [20, 22, 24, 26].flatMap((size, k) => [["+", "abcd"[k], size * MIB], ["-", "abcd"[k]]]),
  small: [...letters(9, 600 * KIB), ...frees("abdegh"), ["empty"]],
};
const LABELS = {
  second: "every second one is freed", first: "the first four are freed",
  growing: "batches that grow", small: "small tensors",
};

// ---- The allocator

const roundUp = (size, unit) => Math.ceil(size / unit) * unit;
const sum = (sizes) => sizes.reduce((total, size) => total + size, 0);

/** Return a card on which nothing is reserved. */
function makeCard(capacity) {
  return { capacity, segments: [], nextAddress: 0 };
}

const blocksOf = (card) => card.segments.flatMap((segment) => segment.blocks);
const reservedOf = (card) => sum(card.segments.map(({ size }) => size));
const allocatedOf = (card) => sum(blocksOf(card).filter(({ name }) => name !== null).map(({ size }) => size));

/** Give segments that are wholly free back to the driver; return how many bytes. */
function emptyCache(card) {
  const before = reservedOf(card);
  card.segments = card.segments.filter(({ blocks }) => blocks.length > 1 || blocks[0].name !== null);
  return before - reservedOf(card);
}

/** Give a block this name, and return in words where it comes from; null where there is no room. */
function allocate(card, name, size) {
  const rounded = roundUp(Math.max(size, 1), SMALLEST_BLOCK);
  const small = rounded <= SMALL;
  let best = null;
  for (const segment of card.segments) {
    if (segment.small !== small) continue;
    for (const block of segment.blocks) {
      // Addresses rise from segment to segment: of equal blocks the first one is the lowest.
      if (block.name === null && block.size >= rounded && !(best && best.block.size <= block.size)) {
        best = { segment, block };
      }
    }
  }
  let told = best && `in a free block of ${tellSize(best.block.size)}`;
  if (!best) {
    const shared = rounded < SHARES_A_SEGMENT ? LARGE_SEGMENT : roundUp(rounded, ROUND_LARGE);
    const needed = small ? SMALL_SEGMENT : shared;
    told = `in a new segment of ${tellSize(needed)}`;
    if (reservedOf(card) + needed > card.capacity) {
      const released = emptyCache(card);
      if (reservedOf(card) + needed > card.capacity) return null;
      told = `after ${tellSize(released)} went back to the driver, ${told}`;
    }
    const block = { address: card.nextAddress, size: needed, name: null };
    const segment = { address: card.nextAddress, size: needed, small, blocks: [block] };
    card.nextAddress += needed;
    card.segments.push(segment);
    best = { segment, block };
  }
  const { segment, block } = best;
  const rest = block.size - rounded;
  block.name = name;
  if (small ? rest >= SMALLEST_BLOCK : rest > SMALL) {
    block.size = rounded;
    const place = segment.blocks.indexOf(block) + 1;
    segment.blocks.splice(place, 0, { address: block.address + rounded, size: rest, name: null });
    told += `, which is split; ${tellSize(rest)} stays free`;
  }
  return told;
}

/** Free a block, and return the size of the free block that it is now part of. */
function release(card, freed) {
  const { blocks } = card.segments.find((segment) => segment.blocks.some(({ name }) => name === freed));
  let place = blocks.findIndex(({ name }) => name === freed);
  blocks[place].name = null;
  if (blocks[place + 1]?.name === null) blocks[place].size += blocks.splice(place + 1, 1)[0].size;
  if (blocks[place - 1]?.name === null) {
    place -= 1;
    blocks[place].size += blocks.splice(place + 1, 1)[0].size;
  }
  return blocks[place].size;
}

/** Return what a card holds after the events of `trace`, and what it held on the way there. */
export function replay(trace, capacity) {
  const card = makeCard(capacity);
  let told = "nothing has happened yet";
  let touched = "";
  const [allocated, reserved, failed, lost] = [[0], [0], [], new Set()];
  trace.forEach(([kind, name = "", size = 0], k) => {
    touched = name;
    if (kind === "+") {
      const placed = allocate(card, name, size);
      told = `allocate ${name}, ${tellSize(size)}: ${placed ?? "out of memory"}`;
      if (placed === null) {
        failed.push(k + 1);
        lost.add(name);
      }
    } else if (kind === "-" && lost.has(name)) {
      told = `free ${name}: it was never allocated`;
      lost.delete(name);
    } else if (kind === "-") {
      told = `free ${name}, now part of a free block of ${tellSize(release(card, name))}`;
    } else {
      told = `empty_cache(): ${tellSize(emptyCache(card))} goes back to the driver`;
    }
    allocated.push(allocatedOf(card));
    reserved.push(reservedOf(card));
  });
  return { card, told, touched, allocated, reserved, failed };
}

// ---- Words

function tellSize(size) {
  if (size === 0) return "0 MiB";
  return size >= MIB ? `${shorten(size / MIB)} MiB` : `${shorten(size / KIB)} KiB`;
}

export function describe({ capacity, trace, step }) {
  const { card, told } = replay(trace.slice(0, step), capacity * MIB);
  const free = blocksOf(card).filter(({ name }) => name === null);
  const [allocated, reserved] = [allocatedOf(card), reservedOf(card)];
  const largest = Math.max(0, ...free.map(({ size }) => size));
  return [
    `Event ${step} of ${trace.length}: ${told}.`,
    `Allocated ${tellSize(allocated)}, reserved ${tellSize(reserved)} of ${tellSize(card.capacity)}.`,
    `${free.length} free block${free.length === 1 ? "" : "s"} with ${tellSize(reserved - allocated)} in all, the `
      + `largest ${tellSize(largest)}; the driver has ${tellSize(card.capacity - reserved)} left.`,
  ];
}

// ---- The page

/** Fill `place` with a card that starts from {capacity, trace, step}; `onChange` hears of each change. */
export function mount(place, start, onChange = () => {}) {
  const id = uniqueId("allocator");
  let state = start;
  let given = start; // what the choice "as it was given" brings back
  const isExample = (trace) => Object.keys(EXAMPLES).find((name) => `${EXAMPLES[name]}` === `${trace}`);

  const choice = make("select", { id: `${id}-choice` });
  for (const [name, told] of Object.entries(LABELS)) choice.append(make("option", { value: name }, told));
  if (!isExample(start.trace)) choice.append(make("option", { value: "given" }, "the trace of this page"));
  const own = make("option", { value: "own", disabled: "" }, "your own");
  choice.append(own);
  const slider = make("input", { type: "range", min: 0, id: `${id}-step` });
  const back = make("button", { type: "button", "aria-label": "one event back" }, "◀");
  const next = make("button", { type: "button", "aria-label": "one event on" }, "▶");
  const card = make("input", {
    type: "range", min: 20, max: 2 * start.capacity, step: 2, id: `${id}-card`,
  });
  const told = make("span");
  const size = make("input", { type: "number", min: 0.001, max: 1000000, step: "any", value: 16, id: `${id}-size` });
  const add = make("button", { type: "button" }, "Allocate");
  const empty = make("button", { type: "button" }, "empty_cache()");
  const controls = make(
    "div", { class: "bits-controls bits-card-controls" },
    make("label", { for: choice.id }, "Events: ", choice),
    make("label", { for: slider.id }, "Event: ", slider), back, next,
    make("label", { for: card.id }, "Card: ", card, " ", told),
    make("label", { for: size.id }, "MiB: ", size), add, empty,
  );
  const said = make("div", { role: "status" });
  const lines = ["", "", ""].map(() => make("p", { class: "bits-said" }));
  said.append(...lines);
  const picture = makeSvg("svg", {
    class: "bits-allocator", role: "group",
    "aria-label": "A card's segments, one in a row, cut into blocks; below, memory over the events. A block in use is a button that frees it.",
  });
  const write = (x, y, text, more = {}) => {
    const node = makeSvg("text", { x, y, ...more });
    node.textContent = text;
    return node;
  };
  const bar = (x, y, width, kind) => makeSvg(
    "rect", { x, y, width: Math.max(width, 1), height: ROW - 8, class: `bits-${kind}` },
  );

  function change(more) {
    state = { ...state, ...more };
    draw();
    onChange(state);
  }

  /** Let something else happen now; what came later in the trace does not. */
  function happen(event) {
    change({ trace: [...state.trace.slice(0, state.step), event], step: state.step + 1 });
  }

  function drawBlocks(card, touched) {
    const rest = card.capacity - reservedOf(card);
    const shown = card.segments.slice(0, MOST_ROWS);
    const widest = Math.max(0, ...shown.map((segment) => segment.size));
    const scale = (WIDTH - LEFT) / Math.max(widest, Math.min(rest, LARGE_SEGMENT), 1);
    const nodes = [];
    shown.forEach((segment, row) => {
      const y = row * ROW;
      nodes.push(write(0, y + 22, tellSize(segment.size)));
      for (const block of segment.blocks) {
        const x = LEFT + (block.address - segment.address) * scale;
        const width = block.size * scale;
        const used = segment.small ? "small" : "used";
        const rect = bar(x, y, width, block.name === null ? "free" : used);
        if (block.name !== null) {
          if (block.name === touched) rect.classList.add("bits-touched");
          set(rect, {
            role: "button", tabindex: 0, "data-name": block.name,
            "aria-label": `free ${block.name}, ${tellSize(block.size)}`,
          });
        }
        nodes.push(rect);
        if (block.name !== null && block.name.length * LETTER < width) {
          nodes.push(write(x + width / 2, y + 22, block.name, { "text-anchor": "middle" }));
        }
      }
    });
    let floor = shown.length * ROW;
    const hidden = card.segments.length - shown.length;
    if (hidden) {
      nodes.push(write(0, floor + 18, `and ${hidden} more segments`));
      floor += 28;
    }
    nodes.push(write(0, floor + 22, "driver"));
    nodes.push(bar(LEFT, floor, Math.min(rest * scale, WIDTH - LEFT), "driver"));
    nodes.push(write(LEFT + 10, floor + 22, `${tellSize(rest)} left`));
    return { nodes, top: floor + ROW + 14 };
  }

  function drawChart(whole, top) {
    const { capacity } = whole.card;
    const column = (WIDTH - LEFT) / whole.allocated.length;
    const floor = top + CHART;
    const area = (kind) => {
      const steps = whole[kind].map((bytes, k) => {
        const y = floor - (CHART * bytes) / capacity;
        return `L${LEFT + k * column} ${y}L${LEFT + (k + 1) * column} ${y}`;
      });
      return makeSvg("path", { d: `M${LEFT} ${floor}${steps.join("")}L${WIDTH} ${floor}Z`, class: `bits-${kind}` });
    };
    const x = LEFT + (state.step + 0.5) * column;
    return [
      area("reserved"), area("allocated"),
      ...whole.failed.map((k) => write(
        LEFT + (k + 0.5) * column, top + 14, "✗", { "text-anchor": "middle", class: "bits-failed" },
      )),
      makeSvg("line", { x1: x, x2: x, y1: top - 6, y2: floor }),
      write(0, top + 14, tellSize(capacity)), write(0, floor, "0 MiB"),
      ...[[LEFT, "reserved"], [LEFT + 150, "allocated"]].flatMap(([place, kind]) => [
        makeSvg("rect", { x: place, y: floor + 10, width: 22, height: 16, class: `bits-${kind}` }),
        write(place + 30, floor + 24, kind),
      ]),
      write(WIDTH, floor + 24, "events", { "text-anchor": "end" }),
    ];
  }

  function draw() {
    const { trace, step, capacity } = state;
    const found = replay(trace.slice(0, step), capacity * MIB);
    const focused = document.activeElement?.dataset?.name;
    const { nodes, top } = drawBlocks(found.card, found.touched);
    picture.replaceChildren(...nodes, ...drawChart(replay(trace, capacity * MIB), top));
    set(picture, { viewBox: `0 0 ${WIDTH} ${top + CHART + 30}` });
    if (focused) picture.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus();
    slider.max = trace.length;
    slider.value = step;
    back.disabled = step === 0;
    next.disabled = step === trace.length;
    card.value = capacity;
    told.textContent = `${capacity} MiB`;
    choice.value = isExample(trace) ?? (`${trace}` === `${given.trace}` ? "given" : "own");
    describe(state).forEach((line, k) => (lines[k].textContent = line));
  }

  function free(event) {
    const { name } = event.target.dataset;
    if (name === undefined) return false;
    // The next button takes the focus of the one that goes.
    const buttons = [...picture.querySelectorAll("[data-name]")];
    const neighbor = buttons[buttons.indexOf(event.target) + 1] ?? buttons.at(-2);
    const hadFocus = document.activeElement === event.target;
    const after = neighbor?.dataset.name;
    happen(["-", name]);
    if (hadFocus && after) picture.querySelector(`[data-name="${CSS.escape(after)}"]`)?.focus();
    return true;
  }

  picture.addEventListener("click", free);
  picture.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === " ") && free(event)) event.preventDefault();
  });
  choice.addEventListener("change", () => {
    if (choice.value === "given") return change(given);
    const trace = EXAMPLES[choice.value];
    return change({ trace, step: trace.length, capacity: CAPACITY });
  });
  slider.addEventListener("input", () => change({ step: Number(slider.value) }));
  back.addEventListener("click", () => change({ step: state.step - 1 }));
  next.addEventListener("click", () => change({ step: state.step + 1 }));
  card.addEventListener("input", () => change({ capacity: Number(card.value) }));
  add.addEventListener("click", () => {
    const bytes = Math.round(Number(size.value) * MIB);
    if (!(bytes > 0)) {
      lines[0].textContent = "Write how many MiB to allocate: a number above 0.";
      return;
    }
    const names = new Set(state.trace.map(([, name]) => name));
    let number = 1;
    while (names.has(`new ${number}`)) number += 1;
    happen(["+", `new ${number}`, bytes]);
  });
  empty.addEventListener("click", () => happen(["empty"]));

  claim(place, "A card's memory as segments and blocks");
  place.replaceChildren(controls, picture, said);
  draw();
  return {
    show(shown) {
      if (JSON.stringify(shown) === JSON.stringify(state)) return;
      state = shown;
      given = shown;
      draw();
    },
  };
}
