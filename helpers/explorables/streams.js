// With twister.js.
// Three streams of random numbers in a training run: who draws, what a fork copies, what a resume restores.

const STEPS = 6;
const OWNERS = ["random", "NumPy", "torch"];
const EXTRAS = {
  none: "nothing", random: "one more random.random()", NumPy: "one more np.random.random()",
  torch: "one more torch.rand(())", loop: "a loop over a DataLoader begins",
  own: "the same with generator=g",
};
const CHILDREN = {
  none: "nothing", fork: "fork two children", workers: "a DataLoader starts two workers",
  own: "the same with generator=g",
};
const OWN_SEED = 7; // of the generator g
const MOST_SEED = 9;
const EXTRA_AT = 1; // before which step, from 0
const KILLED_AT = 3;
const CHILDREN_AT = 5;
const WIDTH = 640;
const LEFT = 92;
const COLUMN = 66;
const GAP = 20;
const TOP = 54;
const LANE = 74;
const HEIGHT = 366;

// ---- Streams

/** Return the 32-bit words of a BigInt, the low ones first. */
function wordsOf(number) {
  const words = [];
  for (let rest = number; rest > 0n || !words.length; rest >>= 32n) words.push(Number(rest & 0xffffffffn));
  return words;
}

const fiftyThree = (twister) => ((twister.next() >>> 5) * 67108864 + (twister.next() >>> 6)) / 2 ** 53;
const DRAW = {
  random: fiftyThree,
  NumPy: fiftyThree,
  torch: (twister) => (twister.next() & 0xffffff) / 2 ** 24,
};

/** Seed the three streams as random.seed, np.random.seed and torch.manual_seed do. */
function seedAll(seed) {
  return { random: seedByWords(wordsOf(BigInt(seed))), NumPy: seedByNumber(seed), torch: seedByNumber(seed) };
}

/** Return what NumPy's generator in a worker is seeded with: the words of a SeedSequence. */
function sequenceWords(base, worker) {
  const hashed = (constant, factor) => (value) => {
    const before = value ^ constant;
    constant = Math.imul(constant, factor);
    const product = Math.imul(before, constant);
    return product ^ (product >>> 16);
  };
  const mix = (x, y) => {
    const sum = Math.imul(0xca01f9dd, x) - Math.imul(0x4973f715, y);
    return sum ^ (sum >>> 16);
  };
  const enter = hashed(0x43b0d7e5, 0x931e8875);
  const pool = [worker, Number(base & 0xffffffffn), Number(base >> 32n), 0].map(enter);
  for (let from = 0; from < 4; from += 1) {
    for (let to = 0; to < 4; to += 1) if (from !== to) pool[to] = mix(pool[to], enter(pool[from]));
  }
  return pool.map(hashed(0x8b51f9dd, 0x58f38ded)).map((word) => word >>> 0);
}

/** Draw the base seed as a DataLoader does when a loop over it begins. */
function drawBase(twister) {
  const high = BigInt(twister.next());
  return ((high << 32n) | BigInt(twister.next())) & 0x7fffffffffffffffn;
}

function seedWorker(base, worker) {
  const seed = base + BigInt(worker);
  return {
    random: seedByWords(wordsOf(seed)),
    NumPy: seedByWords(sequenceWords(base, worker)),
    torch: seedByNumber(Number(seed & 0xffffffffn)),
  };
}

function drawAll(streams) {
  return OWNERS.map((owner) => DRAW[owner](streams[owner]));
}

/** Return the numbers of each step, those of the two children (null: unknown), and the base seed, if any. */
export function run({ seed, extra, killed, kept, children }) {
  let streams = seedAll(seed);
  let own = seedByNumber(OWN_SEED);
  const steps = [];
  let inChildren = [];
  let base = null;
  for (let k = 0; k < STEPS; k += 1) {
    if (k === EXTRA_AT) {
      if (extra === "loop") drawBase(streams.torch);
      else if (extra === "own") drawBase(own);
      else if (extra !== "none") DRAW[extra](streams[extra]);
    }
    if (k === KILLED_AT && killed) {
      const again = seedAll(seed);
      for (const owner of kept) again[owner] = streams[owner];
      streams = again;
      own = seedByNumber(OWN_SEED);
    }
    if (k === CHILDREN_AT && children !== "none") {
      if (children !== "fork") base = drawBase(children === "own" ? own : streams.torch);
      inChildren = [0, 1].map((worker) => {
        if (base !== null) return drawAll(seedWorker(base, worker));
        const copies = Object.fromEntries(OWNERS.map((owner) => [owner, streams[owner].copy()]));
        // The module random seeds itself anew in every fork, from the operating system.
        return [null, ...drawAll(copies).slice(1)];
      });
    }
    steps.push(drawAll(streams));
  }
  return { steps, children: inChildren, base: base === null ? null : `${base}` };
}

function undisturbed(seed) {
  return run({ seed, extra: "none", killed: false, kept: [], children: "none" }).steps;
}

// ---- Words

export function describe(state) {
  const { extra, killed, kept, children } = state;
  const { steps, base } = run(state);
  const whole = undisturbed(state.seed);
  const counts = OWNERS.map((owner, row) => {
    const same = steps.filter((numbers, k) => numbers[row] === whole[k][row]).length;
    return `${owner} ${same} of ${STEPS}`;
  });
  const moved = {
    none: "",
    loop: "Before step 2, a loop draws a seed for its workers, which advances torch's global generator. ",
    own: "Before step 2, a loop draws its seed from g; no global generator advances. ",
  }[extra] ?? `Before step 2, one more draw advances ${extra}'s generator. `;
  const lost = OWNERS.filter((owner) => !kept.includes(owner));
  let resumed = "";
  if (killed) {
    resumed = "After step 3, a new process seeds all three and restores ";
    resumed += `${kept.length ? list(kept) : "nothing"}${kept.length && lost.length ? `, but not ${list(lost, "or")}` : ""}.`;
  }
  const started = {
    none: "No process is started.",
    fork: "From copies of NumPy's and torch's states, both children draw what the main process draws in step 6; "
      + "Python's random reseeds itself in a forked child.",
  }[children] ?? `Each worker's three generators are seeded from the base seed, ${base}, and the worker's number.`;
  return [
    `As in the undisturbed run: ${list(counts)} numbers.`,
    (moved + resumed).trim() || "Nothing disturbs the run.",
    started,
  ];
}

// ---- The page

/** Fill `place` with a run that starts from {seed, extra, killed, kept, children}. */
export function mount(place, start, onChange = () => {}) {
  const id = uniqueId("streams");
  let state = start;
  const choose = (name, words) => {
    const select = make("select", { id: `${id}-${name}` });
    for (const [value, told] of Object.entries(words)) select.append(make("option", { value }, told));
    select.addEventListener("change", () => change({ [name]: select.value }));
    return select;
  };
  const seed = make("input", { type: "range", min: 0, max: MOST_SEED, id: `${id}-seed` });
  const told = make("span");
  const extra = choose("extra", EXTRAS);
  const children = choose("children", CHILDREN);
  const killed = make("input", { type: "checkbox", id: `${id}-killed` });
  const boxes = OWNERS.map((owner) => make("input", { type: "checkbox", id: `${id}-${owner}` }));
  const kept = make(
    "fieldset", { class: "bits-kept" }, make("legend", {}, "The checkpoint holds the state of"),
    ...OWNERS.map((owner, k) => make("label", { for: boxes[k].id }, boxes[k], ` ${owner}`)),
  );
  const controls = make(
    "div", { class: "bits-controls" },
    make("label", { for: seed.id }, "Seed: ", seed, " ", told),
    make("label", { for: extra.id }, "Before step 2: ", extra),
    make("label", { for: children.id }, "Before step 6: ", children),
    make("label", { for: killed.id }, killed, " After step 3: killed and resumed"),
    kept,
  );
  const said = make("div", { role: "status" });
  const lines = ["", "", ""].map(() => make("p", { class: "bits-said" }));
  said.append(...lines);
  const picture = makeSvg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "bits-streams", role: "img",
    "aria-label": "The numbers that three generators give in six steps and in two children, beside those of an undisturbed run",
  });
  const write = (x, y, text, more = {}) => {
    const node = makeSvg("text", { x, y, ...more });
    node.textContent = text;
    return node;
  };
  const box = (x, y, kind, number) => [
    makeSvg("rect", { x: x + 3, y: y + 26, width: COLUMN - 6, height: 32, rx: 4, class: `bits-${kind}` }),
    write(x + COLUMN / 2, y + 49, number === null ? "new" : number.toFixed(3), { "text-anchor": "middle" }),
  ];

  function change(next) {
    state = { ...state, ...next };
    draw();
    onChange(state);
  }

  function draw() {
    const { steps, children: inChildren } = run(state);
    const whole = undisturbed(state.seed);
    const nodes = [write(LEFT, 18, "main process, step")];
    const at = (k) => LEFT + k * COLUMN + (k >= STEPS ? GAP : 0);
    if (inChildren.length) {
      nodes.push(write(WIDTH, 18, state.children === "fork" ? "children" : "workers", { "text-anchor": "end" }));
    }
    for (let k = 0; k < STEPS + inChildren.length; k += 1) {
      const name = k < STEPS ? k + 1 : k - STEPS;
      nodes.push(write(at(k) + COLUMN / 2, 44, `${name}`, { "text-anchor": "middle" }));
    }
    OWNERS.forEach((owner, row) => {
      const y = TOP + row * LANE;
      nodes.push(write(0, y + 49, owner));
      steps.forEach((numbers, k) => {
        const same = numbers[row] === whole[k][row];
        const above = { "text-anchor": "middle", class: "bits-whole" };
        nodes.push(write(at(k) + COLUMN / 2, y + 18, whole[k][row].toFixed(3), above));
        nodes.push(...box(at(k), y, same ? "same" : "other", numbers[row]));
      });
      inChildren.forEach((numbers, child) => {
        const copied = numbers[row] === steps[CHILDREN_AT][row];
        nodes.push(...box(at(STEPS + child), y, copied ? "copy" : "own", numbers[row]));
      });
    });
    const floor = TOP + 3 * LANE;
    const events = [
      [EXTRA_AT, state.extra !== "none" && (state.extra in DRAW ? "one draw" : "loop")],
      [KILLED_AT, state.killed && "resumed"],
      [CHILDREN_AT, state.children !== "none" && (state.children === "fork" ? "fork" : "workers")],
    ];
    for (const [k, event] of events) {
      if (!event) continue;
      nodes.push(makeSvg("line", { x1: at(k), x2: at(k), y1: 28, y2: floor }));
      nodes.push(write(at(k), floor + 20, event, { "text-anchor": "middle" }));
    }
    const legend = [["same", "as above", 0], ["other", "differs", 150], ["copy", "copied", 290], ["own", "own seed", 430]];
    for (const [kind, name, x] of legend) {
      nodes.push(makeSvg("rect", { x: x + 1, y: HEIGHT - 36, width: 26, height: 22, rx: 4, class: `bits-${kind}` }));
      nodes.push(write(x + 34, HEIGHT - 18, name));
    }
    picture.replaceChildren(...nodes);
    seed.value = state.seed;
    told.textContent = `${state.seed}`;
    extra.value = state.extra;
    children.value = state.children;
    killed.checked = state.killed;
    kept.disabled = !state.killed;
    boxes.forEach((one, k) => (one.checked = state.kept.includes(OWNERS[k])));
    describe(state).forEach((line, k) => (lines[k].textContent = line));
  }

  seed.addEventListener("input", () => change({ seed: Number(seed.value) }));
  killed.addEventListener("change", () => change({ killed: killed.checked }));
  for (const one of boxes) {
    one.addEventListener("change", () => change({ kept: OWNERS.filter((_, k) => boxes[k].checked) }));
  }

  claim(place, "Streams of random numbers and their owners");
  place.replaceChildren(controls, picture, said);
  draw();
  return {
    show(next) {
      if (JSON.stringify(next) === JSON.stringify(state)) return;
      state = next;
      draw();
    },
  };
}
