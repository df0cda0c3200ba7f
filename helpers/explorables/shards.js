// With twister.js.
// Shards, workers and shuffle buffers: who reads what, and in which order samples arrive.

const SHARDS = [7, 4, 6, 2, 5];
const BATCH = 2;
const RULES = {
  everything: "every worker reads everything",
  turn: "whole shards in turn",
  equal: "equal shares",
};
const COUNT = SHARDS.reduce((sum, size) => sum + size, 0);
const MOST_WORKERS = 4;
const MOST_BUFFER = 8;
const WIDTH = 480;
const CELL = 30;
const LANE = 68; // the height of a worker's lane
const TOP = 100; // where the lanes begin
const ROW = 32;
const IN_ROW = 16; // samples that have arrived, in one row
const SECOND_ROW = 2; // the shard that begins it
const STREAM = 254; // where what is still to be read begins
const SHOWN = 6; // samples of it
const PAUSE = 700; // milliseconds between two batches

// ---- Python's random.Random(seed), with a seed below 2 ** 32

export function pythonRandom(seed) {
  const twister = seedByWords([seed]);
  function below(count) {
    const shift = Math.clz32(count);
    for (;;) {
      const number = twister.next() >>> shift;
      if (number < count) return number;
    }
  }
  function shuffle(items) {
    for (let k = items.length - 1; k > 0; k--) {
      const j = below(k + 1);
      [items[k], items[j]] = [items[j], items[k]];
    }
  }
  return { below, shuffle };
}

// ---- Workers

const range = (first, last) => Array.from({ length: Math.max(last - first, 0) }, (_, k) => first + k);
const startOf = (shard) => SHARDS.slice(0, shard).reduce((sum, size) => sum + size, 0);
const shardOf = (sample) => SHARDS.findIndex((_, k) => sample < startOf(k + 1));

export function readBy(rule, worker, workers) {
  if (rule === "everything") return range(0, COUNT);
  if (rule === "turn") {
    const mine = range(0, SHARDS.length).filter((shard) => shard % workers === worker);
    return mine.flatMap((shard) => range(startOf(shard), startOf(shard + 1)));
  }
  const each = Math.floor(COUNT / workers);
  const rest = COUNT % workers;
  const first = worker * each + Math.min(worker, rest);
  return range(first, first + each + (worker < rest ? 1 : 0));
}

function runLane(stream, size, seed) {
  const chance = pythonRandom(seed);
  const held = stream.slice(0, size);
  const out = [];
  const bins = [[]];
  for (const sample of stream.slice(size)) {
    const place = chance.below(size);
    out.push(held[place]);
    held[place] = sample;
    bins.push([...held]);
  }
  chance.shuffle(held);
  for (const [place, sample] of held.entries()) {
    out.push(sample);
    bins.push(held.slice(place + 1));
  }
  return { stream, out, bins };
}

export function runLanes(rule, workers, buffer, seed) {
  return range(0, workers).map((worker) =>
    runLane(readBy(rule, worker, workers), buffer, seed * MOST_WORKERS + worker));
}

export function arrivals(lanes) {
  const batches = [];
  const longest = Math.max(...lanes.map(({ out }) => out.length));
  for (let start = 0; start < longest; start += BATCH) {
    lanes.forEach(({ out }, worker) => {
      if (start < out.length) batches.push([worker, out.slice(start, start + BATCH)]);
    });
  }
  return batches;
}

function travel(lanes) {
  const moves = lanes.flatMap(({ stream, out }) => out.map((sample, place) => place - stream.indexOf(sample)));
  return [Math.max(-Math.min(...moves), 0), Math.max(...moves, 0)];
}

function countsAt(lanes, step) {
  const counts = lanes.map(() => 0);
  for (const [worker, batch] of arrivals(lanes).slice(0, step)) counts[worker] += batch.length;
  return counts;
}

// ---- Words

export function describe(lanes, buffer, step) {
  const batches = arrivals(lanes);
  const came = batches.flatMap(([, batch]) => batch);
  const different = new Set(came).size;
  const times = Math.max(...[...new Set(came)].map((one) => came.filter((other) => other === one).length));
  const busiest = Math.max(...lanes.map(({ stream }) => stream.length));
  const [early, late] = travel(lanes);
  const counts = countsAt(lanes, step);
  const waiting = lanes.reduce((sum, { bins }, worker) => sum + bins[counts[worker]].length, 0);
  const arrived = counts.reduce((sum, count) => sum + count, 0);
  const places = (count) => `${count} ${count === 1 ? "place" : "places"}`;
  return [
    `An epoch: ${came.length} samples in ${batches.length} batches; ${different} different samples, `
      + `${times === 1 ? "each once" : `each ${times} times`}.`,
    `The busiest worker reads ${busiest} samples; an equal share is ${Math.ceil(COUNT / lanes.length)}.`,
    `In its worker's stream, a sample moves at most ${places(early)} forward and ${places(late)} back; `
      + `the buffer's size minus 1 is ${buffer - 1}.`,
    `After ${step} of ${batches.length} batches: ${arrived} samples have arrived, and ${waiting} wait in buffers.`,
  ];
}

// ---- The page

/** Fill `place` with lanes that start from {rule, workers, buffer, seed, step}. */
export function mount(place, start, onChange = () => {}) {
  const id = uniqueId("shards");
  let { rule, workers, buffer, seed, step } = start;
  let lanes = [];
  let items = new Map();
  let clock = null;

  const ruleChoice = make("select", { id: `${id}-rule` });
  for (const [name, label] of Object.entries(RULES)) ruleChoice.append(make("option", { value: name }, label));
  const workersChoice = make("select", { id: `${id}-workers` });
  for (let k = 1; k <= MOST_WORKERS; k++) workersChoice.append(make("option", { value: k }, `${k}`));
  const bufferSlider = make("input", { type: "range", min: 1, max: MOST_BUFFER, id: `${id}-buffer` });
  const bufferTold = make("span");
  const stepSlider = make("input", { type: "range", min: 0, id: `${id}-step` });
  const stepTold = make("span");
  const next = make("button", { type: "button" }, "Next batch");
  const play = make("button", { type: "button" }, "Play");
  const another = make("button", { type: "button" }, "Another seed");
  const said = make("div", { role: "status" });
  const lines = ["", "", "", ""].map(() => make("p", { class: "bits-said" }));
  said.append(...lines);
  const picture = makeSvg("svg", {
    class: "bits-shards", role: "img",
    "aria-label": "Shards, workers with their buffers, and the samples that have arrived; the text below says the same",
  });
  const controls = make(
    "div", { class: "bits-controls" },
    make("label", { for: ruleChoice.id }, "Rule: ", ruleChoice),
    make("label", { for: workersChoice.id }, "Workers: ", workersChoice),
    make("label", { for: bufferSlider.id }, "Buffer: ", bufferSlider, " ", bufferTold),
    make("label", { for: stepSlider.id }, "Batches: ", stepSlider, " ", stepTold),
    next, play, another,
  );

  const textAt = (x, y, content) => {
    const text = makeSvg("text", { x, y });
    text.textContent = content;
    return text;
  };

  function newItem(sample) {
    const text = textAt(CELL / 2, 20, `${sample}`);
    text.setAttribute("text-anchor", "middle");
    const box = makeSvg("rect", { x: 1, y: 1, width: CELL - 2, height: CELL - 4, rx: 3 });
    return makeSvg("g", { class: `bits-item bits-moving bits-shard-${shardOf(sample)}` }, box, text);
  }

  /** Make everything anew: another rule, other numbers. */
  function build() {
    lanes = runLanes(rule, workers, buffer, seed);
    step = Math.min(step, arrivals(lanes).length);
    items = new Map();
    const floor = TOP + workers * LANE;
    const most = COUNT * (rule === "everything" ? workers : 1);
    const height = floor + 24 + Math.ceil(most / IN_ROW) * ROW;
    const parts = [textAt(0, 18, `${SHARDS.length} shards`)];
    for (const sample of range(0, COUNT)) {
      const item = newItem(sample);
      const shard = shardOf(sample);
      const first = shard >= SECOND_ROW ? SECOND_ROW : 0;
      const x = (sample - startOf(first)) * CELL + 4 * (shard - first);
      item.style.transform = `translate(${x}px, ${first ? 58 : 26}px)`;
      items.set(`${sample}`, item);
    }
    lanes.forEach(({ stream }, worker) => {
      const top = TOP + worker * LANE;
      const more = textAt(STREAM + SHOWN * CELL + 4, top + 44, "");
      items.set(`more ${worker}`, more);
      parts.push(
        textAt(0, top + 16, `worker ${worker} reads ${stream.length}: buffer`),
        textAt(STREAM, top + 16, "still to read"),
        makeSvg("rect", { x: 0, y: top + 23, width: buffer * CELL, height: CELL, class: "bits-bin" }),
      );
      for (const sample of [...stream].reverse()) items.set(`${worker} ${sample}`, newItem(sample));
    });
    parts.push(textAt(0, floor + 16, "arrived, in this order"));
    picture.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
    picture.replaceChildren(...parts, ...items.values());
  }

  /** Put every sample where it is after `step` batches. */
  function draw() {
    const counts = countsAt(lanes, step);
    const read = new Map();
    const put = (worker, sample, x, y, hidden = false) => {
      const item = items.get(`${worker} ${sample}`);
      item.style.transform = `translate(${x}px, ${y}px)`;
      item.classList.toggle("bits-hidden", hidden);
      item.classList.remove("bits-again");
      return item;
    };
    lanes.forEach(({ stream, out, bins }, worker) => {
      const top = TOP + worker * LANE + 24;
      const held = bins[counts[worker]];
      const rest = stream.slice(counts[worker] + held.length);
      held.forEach((sample, k) => put(worker, sample, k * CELL, top));
      rest.forEach((sample, k) => put(worker, sample, STREAM + Math.min(k, SHOWN) * CELL, top, k >= SHOWN));
      items.get(`more ${worker}`).textContent = rest.length > SHOWN ? `+${rest.length - SHOWN}` : "";
      for (const sample of [...out.slice(0, counts[worker]), ...held]) {
        read.set(sample, (read.get(sample) ?? 0) + 1);
      }
    });
    const floor = TOP + workers * LANE + 24;
    const seen = new Set();
    let at = 0;
    for (const [worker, batch] of arrivals(lanes).slice(0, step)) {
      for (const sample of batch) {
        const item = put(worker, sample, (at % IN_ROW) * CELL, floor + Math.floor(at / IN_ROW) * ROW);
        item.classList.toggle("bits-again", seen.has(sample));
        seen.add(sample);
        at += 1;
      }
    }
    for (const sample of range(0, COUNT)) {
      items.get(`${sample}`).classList.toggle("bits-again", (read.get(sample) ?? 0) > 1);
    }
    const most = arrivals(lanes).length;
    ruleChoice.value = rule;
    workersChoice.value = workers;
    bufferSlider.value = buffer;
    bufferTold.textContent = buffer;
    stepSlider.max = most;
    stepSlider.value = step;
    stepTold.textContent = `${step} of ${most}`;
    next.disabled = step === most;
    play.textContent = clock === null ? "Play" : "Pause";
    describe(lanes, buffer, step).forEach((line, k) => (lines[k].textContent = line));
  }

  function change(to) {
    const isMove = Object.keys(to).join() === "step";
    ({ rule = rule, workers = workers, buffer = buffer, seed = seed, step = step } = to);
    if (!isMove) build();
    draw();
    onChange({ rule, workers, buffer, seed, step });
  }

  function stop() {
    clearInterval(clock);
    clock = null;
    draw();
  }

  ruleChoice.addEventListener("change", () => change({ rule: ruleChoice.value, step: 0 }));
  workersChoice.addEventListener("change", () => change({ workers: Number(workersChoice.value), step: 0 }));
  bufferSlider.addEventListener("input", () => change({ buffer: Number(bufferSlider.value) }));
  stepSlider.addEventListener("input", () => change({ step: Number(stepSlider.value) }));
  next.addEventListener("click", () => change({ step: step + 1 }));
  another.addEventListener("click", () => change({ seed: seed + 1 }));
  play.addEventListener("click", () => {
    if (clock !== null) {
      stop();
      return;
    }
    if (step === arrivals(lanes).length) change({ step: 0 });
    clock = setInterval(() => {
      if (!place.isConnected || step === arrivals(lanes).length) stop();
      else change({ step: step + 1 });
    }, PAUSE);
    draw();
  });

  claim(place, "Shards, workers and shuffle buffers");
  place.replaceChildren(controls, picture, said);
  build();
  draw();
  return {
    show(to) {
      if (JSON.stringify(to) === JSON.stringify({ rule, workers, buffer, seed, step })) return;
      ({ rule, workers, buffer, seed, step } = to);
      build();
      draw();
    },
  };
}
