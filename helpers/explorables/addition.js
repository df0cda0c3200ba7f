// With floats.js. The addition: two numbers of a format, their exact sum, and the bits that fall off.

const MOST_DROPPED = 12; // columns for bits that fall off; what lies below them is one column
const LINE = { width: 640, height: 92, left: 70, right: 570, y: 38 };

// ---- Numbers: a BigInt, in units of a power of two, is exact

function takeApart(format, bits) {
  const { sign, exponent, fraction, power } = decode(format, bits);
  const m = measures(format);
  const digits = BigInt(fraction + (exponent === 0 ? 0 : m.one));
  return { integer: sign ? -digits : digits, power: power - m.fractionBits };
}

function magnitudeOf(integer) {
  return integer < 0n ? -integer : integer;
}

function lengthOf(integer) {
  return integer === 0n ? 0 : magnitudeOf(integer).toString(2).length;
}

/** Return how many zeros an integer ends with; zero itself ends with none. */
function trailingZeros(integer) {
  return integer === 0n ? 0 : lengthOf(magnitudeOf(integer) & -magnitudeOf(integer)) - 1;
}

/** Return what becomes of a + b in `format`; `a` and `b` are the bits of two of its numbers. */
export function add(format, aBits, bBits) {
  const m = measures(format);
  const [a, b] = [aBits, bBits].map((bits) => decode(format, bits).value);
  if (!Number.isFinite(a) || !Number.isFinite(b)) {
    const stored = decode(format, encode(format, a + b)).value;
    return { format, a, b, stored, kind: "special" };
  }
  const parts = [takeApart(format, aBits), takeApart(format, bBits)];
  const bottom = Math.min(parts[0].power, parts[1].power);
  const [first, second] = parts.map(({ integer, power }) => integer << BigInt(power - bottom));
  const exact = first + second;
  const size = magnitudeOf(exact);
  // The last place that the format has at this size, and what lies below it.
  const last = Math.max(lengthOf(exact) - 1 + bottom, m.lowest) - m.fractionBits;
  const dropped = BigInt(Math.max(last - bottom, 0));
  const unit = 1n << dropped;
  const [low, rest] = [size >> dropped, size % unit];
  const goesUp = 2n * rest > unit || (2n * rest === unit && low % 2n === 1n);
  const kept = goesUp ? low + 1n : low;
  const sign = exact < 0n ? -1 : 1;
  const step = 2 ** Math.max(last, bottom);
  const largest = decode(format, m.largest).value;
  const around = [low, low + 1n].map((steps) => sign * Number(steps) * step);
  const found = { format, a, b, bottom, first, second, exact, last: bottom + Number(dropped), around };
  if (Number(kept) * step > largest) {
    const stored = sign * (m.infinity ? Infinity : largest);
    return { ...found, kept: null, stored, kind: "too large" };
  }
  // A sum of zeros has the sign that the processor gives it.
  const stored = kept === 0n ? a + b : sign * Number(kept) * step;
  const kind = rest === 0n ? "exact" : 2n * rest === unit ? "tie" : "rounded";
  const place = Number((rest * 2n ** 20n) / unit) / 2 ** 20;
  return { ...found, kept: kept << dropped, stored, kind, place };
}

/** Return the columns of the table, from the first to the last, and the rows that fill them. */
export function layOut(sum) {
  const { bottom, last, kind } = sum;
  const numbers = [["a", sum.first], ["b", sum.second], ["a + b", sum.exact]];
  if (sum.kept !== null) numbers.push(["stored", sum.exact < 0n ? -sum.kept : sum.kept]);
  const top = Math.max(...numbers.map(([, integer]) => lengthOf(integer)), 1) - 1 + bottom;
  // No more columns than there are digits, and never fewer than are kept.
  const least = Math.min(bottom + trailingZeros(sum.first | sum.second), last);
  const end = kind === "exact" ? least : Math.max(least, last - MOST_DROPPED);
  const rows = numbers.map(([name, integer]) => {
    const digits = magnitudeOf(integer).toString(2).padStart(top - bottom + 1, "0");
    const shown = digits.slice(0, top - end + 1);
    const first = shown.search("1");
    const bits = [...shown].map((digit, k) => (first < 0 || k < first ? "" : digit));
    const isStored = name === "stored";
    return {
      name, sign: integer < 0n ? "\u2212" : "",
      bits: bits.map((bit, k) => (isStored && top - k < last ? "" : bit)),
      more: digits.slice(top - end + 1).includes("1"),
    };
  });
  return { kept: top - Math.max(last, end) + 1, dropped: Math.max(last - end, 0), rows };
}

/** Return the bits of `b` times a power of two, so that its first bit is `shift` places below a's. */
export function shiftTo(format, aBits, bBits, shift) {
  const [a, b] = [aBits, bBits].map((bits) => decode(format, bits).value);
  return encode(format, b * 2 ** (exponentOf(Math.abs(a)) - shift - exponentOf(Math.abs(b))));
}

/** Return the bits of half a step of `a`, or of the number before or behind it; null if there is none. */
export function findTie(format, aBits, side) {
  const { ulp } = neighbors(format, aBits);
  const m = measures(format);
  if (ulp === null || ulp - 1 < m.lowest - m.fractionBits) return null;
  return encode(format, 2 ** (ulp - 1)) + side;
}

// ---- Words

export function describe(sum) {
  const { a, b, stored, kind } = sum;
  const begin = `${write(a)} ${b < 0 ? "\u2212" : "+"} ${write(Math.abs(b))}`;
  if (kind === "special") return `${begin} is ${write(stored)}.`;
  if (kind === "exact") return `${begin} is ${write(stored)}, which is stored exactly.`;
  if (kind === "too large") return `${begin} is too large for ${sum.format} and becomes ${write(stored)}.`;
  const [low, high] = sum.around.map(write);
  const why = kind === "tie"
    ? `halfway between ${low} and ${high}. The last bit of ${write(stored)} is 0, so it is stored`
    : `between ${low} and ${high}, and nearer to ${write(stored)}, which is stored`;
  return `${begin} lies ${why}.${stored === a ? " Adding b changes nothing." : ""}`;
}

// ---- The page

function drawTable(sum) {
  const { kept, dropped, rows } = layOut(sum);
  const more = rows.some((row) => row.more);
  const head = make("tr", {}, make("td"), make("th", { colspan: kept, scope: "colgroup" }, "kept"));
  if (dropped) {
    head.append(make("th", { colspan: dropped + Number(more), scope: "colgroup" }, "falls off"));
  }
  const body = rows.map(({ name, sign, bits, more: hasMore }) => {
    const cells = bits.map((bit, k) =>
      make("td", { class: `${bit === "1" ? "bits-one" : ""}${k < kept ? "" : " bits-off"}` }, bit),
    );
    if (more) cells.push(make("td", { class: "bits-off" }, hasMore ? "\u2026" : ""));
    return make("tr", {}, make("th", { scope: "row" }, `${name}${sign && ` ${sign}`}`), ...cells);
  });
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
}

function drawLine({ kind, around, place, exact }) {
  if (kind !== "tie" && kind !== "rounded") return make("span");
  const at = (part) => LINE.left + part * (LINE.right - LINE.left);
  const [left, right] = exact < 0n ? [around[1], around[0]] : around;
  const x = at(exact < 0n ? 1 - place : place);
  const tick = (part) => makeSvg("line", { x1: at(part), x2: at(part), y1: LINE.y - 9, y2: LINE.y + 9 });
  const label = (part, y, text, anchor) =>
    makeSvg("text", { x: at(part), y, "text-anchor": anchor }, text);
  return makeSvg(
    "svg", {
      viewBox: `0 0 ${LINE.width} ${LINE.height}`, class: "bits-line", role: "img",
      "aria-label": "The exact sum on the number line, between the two numbers that can be stored",
    },
    makeSvg("line", { x1: at(0), x2: at(1), y1: LINE.y, y2: LINE.y }), tick(0), tick(0.5), tick(1),
    makeSvg("circle", { cx: x, cy: LINE.y, r: 8 }),
    label(0, LINE.y + 34, write(left), "start"), label(0.5, LINE.y - 18, "halfway", "middle"),
    label(1, LINE.y + 34, write(right), "end"),
  );
}

/** Fill `place` with an addition that starts from {format, a, b}. `onChange` hears of each change. */
export function mount(place, start, onChange = () => {}) {
  const id = uniqueId("addition");
  let format;
  let aBits;
  let bBits;
  const choice = make("select", { id: `${id}-format` });
  for (const [name, { label }] of Object.entries(FORMATS)) {
    choice.append(make("option", { value: name }, label));
  }
  const field = (name) => make("input", {
    id: `${id}-${name}`, type: "text", size: "14", autocomplete: "off", spellcheck: "false",
  });
  const [aField, bField] = [field("a"), field("b")];
  const shift = make("input", { id: `${id}-shift`, type: "range", min: 0, step: 1 });
  const button = (text) => make("button", { type: "button" }, text);
  const [before, tie, behind, again] =
    ["Just below a tie", "A tie", "Just above a tie", "Add b again"].map(button);
  const said = make("p", { class: "bits-said", role: "status" });
  const wide = make("div", { class: "bits-wide", tabindex: 0, role: "group", "aria-label": "The bits of a, b and their sum" });
  const line = make("div");
  const controls = make(
    "form", { class: "bits-controls" },
    make("label", { for: choice.id }, "Format ", choice),
    make("label", { for: aField.id }, "a ", aField), make("label", { for: bField.id }, "b ", bField),
    make("button", { type: "submit" }, "Add"),
    make("label", { for: shift.id }, "Places between a and b ", shift),
  );
  const ties = make("div", { class: "bits-controls" }, before, tie, behind, again);

  const sides = [[before, -1], [tie, 0], [behind, 1]];
  const state = () => ({ format, a: aField.value, b: bField.value });

  function draw() {
    const sum = add(format, aBits, bBits);
    choice.value = format;
    [aField.value, bField.value] = [write(sum.a), write(sum.b)];
    const most = FORMATS[format].fractionBits + 4;
    shift.max = most;
    shift.disabled = sum.kind === "special" || sum.a === 0 || sum.b === 0;
    if (!shift.disabled) {
      const apart = exponentOf(Math.abs(sum.a)) - exponentOf(Math.abs(sum.b));
      shift.value = Math.min(Math.max(apart, 0), most);
      shift.setAttribute("aria-valuetext", `${apart} places`);
    }
    for (const [control, side] of sides) control.disabled = findTie(format, aBits, side) === null;
    again.disabled = sum.kind === "special";
    said.textContent = describe(sum);
    said.classList.remove("bits-wrong");
    wide.replaceChildren(sum.kind === "special" ? make("span") : drawTable(sum));
    line.replaceChildren(drawLine(sum));
  }

  function change(next) {
    if ("a" in next) aBits = next.a;
    if ("b" in next) bBits = next.b;
    draw();
    onChange(state());
  }

  function begin(next) {
    format = next.format;
    [aBits, bBits] = [next.a, next.b].map((text) => encode(format, parse(text) ?? NaN));
    draw();
  }

  controls.addEventListener("submit", (event) => {
    event.preventDefault();
    const [a, b] = [aField.value, bField.value].map(parse);
    if (a !== null && b !== null) return change({ a: encode(format, a), b: encode(format, b) });
    const wrong = a === null ? aField.value : bField.value;
    said.textContent = `"${wrong}" is not a number: type one like 0.1, 2^-24, inf or nan.`;
    said.classList.add("bits-wrong");
  });
  choice.addEventListener("change", () => {
    const [a, b] = [aBits, bBits].map((bits) => decode(format, bits).value);
    format = choice.value;
    change({ a: encode(format, a), b: encode(format, b) });
  });
  shift.addEventListener("input", () =>
    change({ b: shiftTo(format, aBits, bBits, Number(shift.value)) }),
  );
  for (const [control, side] of sides) {
    control.addEventListener("click", () => change({ b: findTie(format, aBits, side) }));
  }
  again.addEventListener("click", () =>
    change({ a: encode(format, add(format, aBits, bBits).stored) }),
  );

  claim(place, "An addition, bit by bit");
  place.replaceChildren(controls, ties, wide, line, said);
  begin(start);
  return {
    show(next) {
      if (JSON.stringify(next) !== JSON.stringify(state())) begin(next);
    },
  };
}
