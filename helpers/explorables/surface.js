// An error surface over two weights, and the steps of an optimizer on it.

const METHODS = { gradient: "gradient descent", adam: "Adam" };
const CONDITIONS = [1, 2, 5, 10, 14, 20, 50, 100, 200, 500, 1000, 4500];
const RATES = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 1.5, 1.8, 1.9, 2.1];
const FIRST_RATES = { gradient: 1.8, adam: 0.1 }; // when the method is chosen
const MOST_TILT = 45;
const MOST_STEPS = 200;
const MOST_START = 1.2;
const WIDTH = 320; // of each of the two pictures
const HEIGHT = 290;
const UNIT = 112; // the length of a weight of 1
const [LEFT, RIGHT, TOP, BOTTOM] = [62, 300, 16, 246]; // the frame of the loss
const DECADES = 7; // of the loss, from 10 times its first value downward
const LEAST = 10 ** (1 - DECADES); // what is drawn of it
const FAR = 30; // where a path that leaves the picture is cut off

// ---- Numbers

function direction(tilt) {
  return [Math.cos((tilt * Math.PI) / 180), Math.sin((tilt * Math.PI) / 180)];
}

/** Return the error along the flat direction, and along the steep one. */
export function split(tilt, [x, y]) {
  const [cos, sin] = direction(tilt);
  return [cos * x + sin * y, cos * y - sin * x];
}

/** Return the gradient of the loss with respect to the two weights. */
export function gradient(condition, tilt, point) {
  const [flat, steep] = split(tilt, point);
  const [cos, sin] = direction(tilt);
  return [(flat * cos) / condition - steep * sin, (flat * sin) / condition + steep * cos];
}

/** Return the two parts of the loss: of the flat direction, and of the steep one. */
function losses(condition, tilt, point) {
  const [flat, steep] = split(tilt, point);
  return [(flat * flat) / condition / 2, (steep * steep) / 2];
}

/** Return the errors of both weights before the first step and after each of all steps. */
export function descend({ method, condition, rate, tilt, start }) {
  let [x, y] = start;
  const path = [[x, y]];
  const mean = [0, 0];
  const square = [0, 0];
  for (let step = 1; step <= MOST_STEPS; step += 1) {
    let slopes = gradient(condition, tilt, [x, y]);
    if (method === "adam") {
      slopes = slopes.map((slope, k) => {
        mean[k] = 0.9 * mean[k] + 0.1 * slope;
        square[k] = 0.999 * square[k] + 0.001 * slope * slope;
        const size = Math.sqrt(square[k]) / Math.sqrt(1 - 0.999 ** step) + 1e-8;
        return mean[k] / (1 - 0.9 ** step) / size;
      });
    }
    [x, y] = [x - rate * slopes[0], y - rate * slopes[1]];
    path.push([x, y]);
  }
  return path;
}

/** Return `start` with its place moved there, on a grid of tenths; the minimum itself is no start. */
export function moveStart(start, [x, y]) {
  const moved = [x, y].map((part) => {
    const tenths = Math.round(Math.min(Math.max(part, -MOST_START), MOST_START) * 10);
    return tenths === 0 ? 0 : tenths / 10;
  });
  return moved[0] === 0 && moved[1] === 0 ? start : moved;
}

// ---- Words

function tellNumber(number) {
  if (number > 0 && number < 1e-5) return "less than 0.00001";
  return number > 1e5 ? "more than 100000" : shorten(number);
}

export function describe(state) {
  const { method, condition, rate, tilt, steps, start } = state;
  const path = descend(state);
  const add = (parts) => parts[0] + parts[1];
  const [flat, steep] = split(tilt, start).map(Math.abs);
  const [flatThen, steepThen] = split(tilt, path[steps]).map(Math.abs);
  const share = add(losses(condition, tilt, path[steps])) / add(losses(condition, tilt, start));
  const down = gradient(condition, tilt, start);
  const cross = down[0] * start[1] - down[1] * start[0];
  const dot = down[0] * start[0] + down[1] * start[1];
  const turn = Math.abs((Math.atan2(cross, dot) * 180) / Math.PI);
  const limit = method === "gradient" && rate > 2
    ? " The rate is above the limit, 2, so the steep error grows." : "";
  return `Condition number ${tellNumber(condition)}, ${METHODS[method]}, learning rate ${tellNumber(rate)}: `
    + `in ${steps} steps, the steep error goes from ${tellNumber(steep)} to ${tellNumber(steepThen)}, `
    + `the flat one from ${tellNumber(flat)} to ${tellNumber(flatThen)}, `
    + `and the loss ${share <= 1 ? "falls" : "rises"} to ${tellNumber(100 * share)}% of its first value. `
    + `At the start, the negative gradient points ${Math.floor(turn + 0.5)}° away from the minimum.${limit}`;
}

// ---- The page

function place([x, y]) {
  return [WIDTH / 2 + UNIT * x, HEIGHT / 2 - UNIT * y];
}

function radii(condition) {
  const found = [];
  // Along the flat direction; the loss is four times as high at the next.
  for (let radius = 0.2; radius / Math.sqrt(condition) < 2; radius *= 2) found.push(radius);
  return found;
}

function across(step) {
  return LEFT + ((RIGHT - LEFT) * step) / MOST_STEPS;
}

function heightOf(share) {
  const decades = 1 - Math.log10(Math.max(share, 1e-30));
  return TOP + (BOTTOM - TOP) * Math.min(Math.max(decades / DECADES, 0), 1);
}

/** Return the way from the start against the gradient, as an arrow of one length. */
function arrow(condition, tilt, start) {
  const slope = gradient(condition, tilt, start);
  const [x, y] = slope.map((part) => -part / Math.hypot(...slope));
  const tip = [start[0] + 0.45 * x, start[1] + 0.45 * y];
  const back = [tip[0] - 0.1 * x, tip[1] - 0.1 * y];
  const one = [back[0] - 0.06 * y, back[1] + 0.06 * x];
  const other = [back[0] + 0.06 * y, back[1] - 0.06 * x];
  return `M${place(start)} L${place(tip)} M${place(one)} L${place(tip)} L${place(other)}`;
}

/** Fill `place` with a surface that starts from {method, condition, rate, tilt, steps, start}. */
export function mount(page, first, onChange = () => {}) {
  const id = uniqueId("surface");
  let state = { ...first };
  const said = make("p", { class: "bits-said", role: "status" });
  const choice = make("select", { id: `${id}-method` });
  for (const [name, label] of Object.entries(METHODS)) choice.append(make("option", { value: name }, label));

  // What each slider moves: its values, and how one is written.
  const sliders = {
    condition: { label: "condition number", values: CONDITIONS, write: String },
    rate: { label: "learning rate", values: RATES, write: String },
    tilt: { label: "tilt of the valley", values: range(-MOST_TILT, MOST_TILT, 5), write: (tilt) => `${tilt}°` },
    steps: { label: "steps", values: range(0, MOST_STEPS, 1), write: String },
  };
  const again = make("button", { type: "button" }, "Start again");
  const controls = make("div", { class: "bits-controls bits-moves" }, make("label", { for: choice.id }, "optimizer ", choice));
  for (const [name, slider] of Object.entries(sliders)) {
    slider.input = make("input", { type: "range", id: `${id}-${name}`, min: 0, max: slider.values.length - 1, step: 1 });
    slider.output = make("strong");
    slider.input.addEventListener("input", () => change({ [name]: slider.values[Number(slider.input.value)] }));
    controls.append(make("label", { for: slider.input.id }, make("span", {}, `${slider.label} `, slider.output), slider.input));
  }
  controls.append(again);

  function range(from, to, by) {
    return Array.from({ length: (to - from) / by + 1 }, (_, k) => from + k * by);
  }

  // What is dragged stays in the page while it moves: a finger is lost with what it touched.
  const rings = makeSvg("g");
  const straight = makeSvg("path", { class: "bits-straight" });
  const walk = makeSvg("polyline", { class: "bits-path" });
  const dots = makeSvg("g");
  const down = makeSvg("path", { class: "bits-down" });
  const [middleX, middleY] = place([0, 0]);
  const minimum = makeSvg("path", {
    class: "bits-minimum", d: `M${middleX - 7} ${middleY} h14 M${middleX} ${middleY - 7} v14`,
  });
  const handle = makeSvg("circle", {
    r: 9, class: "bits-start", role: "slider", tabindex: 0, "aria-label": "start, moved by the arrow keys",
    "aria-valuemin": -MOST_START, "aria-valuemax": MOST_START,
  });
  const surface = makeSvg(
    "svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "bits-surface", role: "group",
      "aria-label": "Contour lines of the loss over the errors of two weights, and a path of steps",
    },
    rings, straight, walk, dots, minimum, down, handle,
    makeSvg("text", { x: 8, y: HEIGHT - 8 }, "error of weight 1 →"),
    makeSvg("text", { x: 8, y: 18 }, "↑ error of weight 2"),
  );
  const curves = ["bits-whole", "bits-flat", "bits-steep"].map((name) => makeSvg("polyline", { class: name }));
  const now = makeSvg("line", { y1: TOP, y2: BOTTOM, class: "bits-now" });
  const loss = makeSvg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "bits-loss", role: "img",
    "aria-label": "The loss over 200 steps, as a share of its first value, with its steep and its flat part",
  });
  for (const [decade, label] of [[0, "100%"], [-2, "1%"], [-4, "0.01%"], [-6, "10⁻⁴%"]]) {
    const y = heightOf(10 ** decade);
    loss.append(
      makeSvg("line", { x1: LEFT, x2: RIGHT, y1: y, y2: y, class: "bits-grid" }),
      makeSvg("text", { x: LEFT - 5, y: y + 5, "text-anchor": "end" }, label),
    );
  }
  for (const count of [0, 100, 200]) {
    loss.append(makeSvg("text", { x: across(count), y: BOTTOM + 17, "text-anchor": "middle" }, String(count)));
  }
  loss.append(
    now, ...curves, makeSvg("text", { x: RIGHT, y: TOP + 4, "text-anchor": "end" }, "loss, of its first value"),
    makeSvg(
      "text", { x: (LEFT + RIGHT) / 2, y: BOTTOM + 36, "text-anchor": "middle" },
      "steps; ", makeSvg("tspan", { class: "bits-of-steep" }, "steep part"),
      ", ", makeSvg("tspan", { class: "bits-of-flat" }, "flat part"),
    ),
  );

  function change(next) {
    state = { ...state, ...next };
    draw();
    onChange({ ...state });
  }

  function drawSurface(path) {
    const { condition, tilt, start } = state;
    rings.replaceChildren(...radii(condition).map((radius) => makeSvg("ellipse", {
      rx: radius * UNIT, ry: (radius / Math.sqrt(condition)) * UNIT, class: "bits-ring",
      transform: `translate(${middleX} ${middleY}) rotate(${-tilt})`,
    })));
    const shown = path.slice(0, state.steps + 1).filter(([x, y]) => Math.max(Math.abs(x), Math.abs(y)) < FAR);
    straight.setAttribute("d", `M${place(start)} L${place([0, 0])}`);
    walk.setAttribute("points", shown.map(place).join(" "));
    dots.replaceChildren(...shown.map(place).map(([cx, cy]) => makeSvg("circle", { cx, cy, r: 2.5, class: "bits-step" })));
    down.setAttribute("d", arrow(condition, tilt, start));
    const [cx, cy] = place(start);
    set(handle, { cx, cy, "aria-valuenow": start[0], "aria-valuetext": `weight 1 ${start[0]}, weight 2 ${start[1]}` });
  }

  function drawLoss(path) {
    const parts = path.map((point) => losses(state.condition, state.tilt, point));
    const whole = parts[0][0] + parts[0][1];
    const shares = [parts.map(([flat, steep]) => flat + steep), parts.map(([flat]) => flat), parts.map(([, steep]) => steep)];
    for (const [k, curve] of curves.entries()) {
      const points = shares[k].map((value, step) => [across(step), value / whole]).filter(([, share]) => share >= LEAST);
      curve.setAttribute("points", points.map(([x, share]) => `${x},${heightOf(share)}`).join(" "));
    }
    set(now, { x1: across(state.steps), x2: across(state.steps) });
  }

  function draw() {
    const path = descend(state);
    drawSurface(path);
    drawLoss(path);
    choice.value = state.method;
    for (const [name, { values, write, input, output }] of Object.entries(sliders)) {
      input.value = values.indexOf(state[name]);
      input.setAttribute("aria-valuetext", write(state[name]));
      output.textContent = write(state[name]);
    }
    said.textContent = describe(state);
  }

  handle.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const [x, y] = moves[event.key];
    change({ start: moveStart(state.start, [state.start[0] + x, state.start[1] + y]) });
  });
  let dragged = false;
  handle.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    dragged = true;
    handle.focus();
    handle.setPointerCapture(event.pointerId);
  });
  // Inside a picture, touch-action alone does not keep the page from scrolling.
  handle.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });
  handle.addEventListener("pointermove", (event) => {
    if (!dragged) return;
    const box = surface.getBoundingClientRect();
    const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    const next = moveStart(state.start, [(x * WIDTH - WIDTH / 2) / UNIT, (HEIGHT / 2 - y * HEIGHT) / UNIT]);
    if (next[0] !== state.start[0] || next[1] !== state.start[1]) change({ start: next });
  });
  for (const end of ["pointerup", "pointercancel"]) {
    handle.addEventListener(end, () => (dragged = false));
  }
  choice.addEventListener("change", () => change({ method: choice.value, rate: FIRST_RATES[choice.value] }));
  again.addEventListener("click", () => change(first));

  claim(page, "An error surface and the steps of an optimizer");
  page.replaceChildren(controls, make("div", { class: "bits-pair" }, surface, loss), said);
  draw();
  return {
    show(next) {
      if (JSON.stringify(next) === JSON.stringify(state)) return;
      state = { ...next };
      draw();
    },
  };
}
