// The bit explorer: one number as its bits.

const FORMATS = {
  float32: { label: "float32", exponentBits: 8, fractionBits: 23, infinity: true },
  float16: { label: "float16 (fp16)", exponentBits: 5, fractionBits: 10, infinity: true },
  bfloat16: { label: "bfloat16 (bf16)", exponentBits: 8, fractionBits: 7, infinity: true },
  float8_e4m3fn: { label: "float8 e4m3", exponentBits: 4, fractionBits: 3, infinity: false },
  float8_e5m2: { label: "float8 e5m2", exponentBits: 5, fractionBits: 2, infinity: true },
};

// ---- Numbers: a pattern of bits is an unsigned integer, a value is a JavaScript double, which
// ---- holds every value of these formats exactly.

function measures(format) {
  const { exponentBits, fractionBits, infinity } = FORMATS[format];
  const bias = 2 ** (exponentBits - 1) - 1;
  const ones = 2 ** exponentBits - 1;
  const one = 2 ** fractionBits;
  const magnitude = 2 ** (exponentBits + fractionBits);
  return {
    exponentBits, fractionBits, infinity, bias, ones, one, magnitude,
    width: 1 + exponentBits + fractionBits,
    lowest: 1 - bias,
    // The pattern of the largest number: below inf, or, where there is none, below nan.
    largest: infinity ? magnitude - one - 1 : magnitude - 2,
  };
}

export function decode(format, bits) {
  const m = measures(format);
  const sign = Math.floor(bits / m.magnitude);
  const pattern = bits % m.magnitude;
  const exponent = Math.floor(pattern / m.one);
  const fraction = pattern % m.one;
  const parts = { sign, exponent, fraction, bias: m.bias, one: m.one };
  const factor = sign ? -1 : 1;
  if (pattern > m.largest) {
    const isInfinity = m.infinity && fraction === 0;
    const value = isInfinity ? factor * Infinity : NaN;
    return { ...parts, kind: isInfinity ? "infinity" : "nan", power: null, value };
  }
  const power = Math.max(exponent - m.bias, m.lowest);
  const significand = fraction + (exponent === 0 ? 0 : m.one);
  const value = factor * significand * 2 ** (power - m.fractionBits);
  const kind = exponent > 0 ? "normal" : fraction > 0 ? "subnormal" : "zero";
  return { ...parts, kind, power, value };
}

export function encode(format, value) {
  const m = measures(format);
  const sign = value < 0 || Object.is(value, -0) ? m.magnitude : 0;
  if (Number.isNaN(value)) {
    // The quiet nan that torch makes; where there is but one nan, all bits are ones.
    return m.infinity ? m.magnitude - m.one / 2 : m.magnitude - 1;
  }
  const size = Math.abs(value);
  const beyond = m.infinity ? m.largest + 1 : m.largest; // without an infinity, torch saturates
  if (size === Infinity) return sign + beyond;
  const power = Math.max(size === 0 ? m.lowest : exponentOf(size), m.lowest);
  // Scaling by a power of two is exact, so what is rounded is the number itself.
  const steps = roundHalfToEven(size / 2 ** (power - m.fractionBits));
  // A fraction that is rounded up to the next power of two carries into the exponent by itself.
  return sign + Math.min((power - m.lowest) * m.one + steps, beyond);
}

export function neighbors(format, bits) {
  const m = measures(format);
  const { kind, value } = decode(format, bits);
  if (kind === "nan") return { below: null, above: null, ulp: null };
  const ordered = bits >= m.magnitude ? -(bits - m.magnitude) : bits;
  const last = m.infinity ? m.largest + 1 : m.largest;
  const at = (place) => {
    if (Math.abs(place) > last) return null;
    return decode(format, place < 0 ? m.magnitude - place : place).value;
  };
  const found = { below: at(ordered - 1), above: at(ordered + 1) };
  if (kind === "infinity") return { ...found, ulp: null };
  const power = Math.max(value === 0 ? m.lowest : exponentOf(Math.abs(value)), m.lowest);
  return { ...found, ulp: power - m.fractionBits };
}

function exponentOf(size) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, size);
  const field = view.getUint32(0) >>> 20;
  return field === 0 ? -1023 : field - 1023; // a subnormal double is below every format here
}

function roundHalfToEven(number) {
  const floor = Math.floor(number);
  const rest = number - floor;
  if (rest !== 0.5) return rest < 0.5 ? floor : floor + 1;
  return floor % 2 === 0 ? floor : floor + 1;
}

export function parse(text) {
  const typed = text.trim().toLowerCase().replace(/\u2212/g, "-").replace(/\*\*/g, "^");
  const word = /^([+-]?)(inf|infinity|nan)$/.exec(typed);
  if (word) return word[2] === "nan" ? NaN : word[1] === "-" ? -Infinity : Infinity;
  const power = /^([+-]?)2\^\(?([+-]?\d+)\)?$/.exec(typed);
  if (power) return (power[1] === "-" ? -1 : 1) * 2 ** Number(power[2]);
  const number = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/.test(typed);
  return number ? Number(typed) : null;
}

// ---- Words

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

function superscript(number) {
  const digits = String(Math.abs(number)).replace(/\d/g, (digit) => SUPERSCRIPTS[digit]);
  return number < 0 ? `⁻${digits}` : digits;
}

function write(value) {
  if (value === null) return "none";
  if (Number.isNaN(value)) return "nan";
  if (Math.abs(value) === Infinity) return value < 0 ? "-inf" : "inf";
  return Object.is(value, -0) ? "-0" : String(value);
}

function writePower(power) {
  return `2${superscript(power)} = ${write(2 ** power)}`;
}

function describe(format, bits) {
  const parts = decode(format, bits);
  const around = neighbors(format, bits);
  const hidden = parts.exponent === 0 ? "0" : "1";
  const special = parts.power === null;
  const minus = parts.sign ? "−" : "";
  const formula = `${minus}${hidden} ${parts.fraction}/${parts.one} × 2${superscript(parts.power ?? 0)}`;
  const field = `field ${parts.exponent}`;
  return [
    ["Value", write(parts.value), "value"],
    ["Kind", parts.kind, "kind"],
    ["As a formula", special ? "none" : formula, "formula"],
    ["Sign", parts.sign ? "1, negative" : "0, positive", "sign"],
    ["Exponent", special ? `${field}, all ones` : `${field}, stands for ${parts.power}`, "exponent"],
    ["Fraction", `${parts.fraction} of ${parts.one}`, "fraction"],
    ["Next below", write(around.below), "below"],
    ["Next above", write(around.above), "above"],
    ["Step here (ulp)", around.ulp === null ? "none" : writePower(around.ulp), "ulp"],
  ];
}

// ---- The page

// What a bit is worth, for those who hear the page instead of seeing it.
function nameOfBit(format, place) {
  const m = measures(format);
  if (place === 0) return "sign bit";
  if (place <= m.exponentBits) return `exponent bit, worth ${2 ** (m.exponentBits - place)}`;
  return `fraction bit, worth 1/${2 ** (place - m.exponentBits)}`;
}

/**
 * Fill `place` with an explorer that starts from {format, bits} and, where those are the rounding
 * of another number, {value}, its text. `onChange` hears of each change.
 */
export function mount(place, start, onChange = () => {}) {
  const id = uniqueId("bits");
  let { format, bits } = start;
  // The number that was asked for: a change of format rounds it anew.
  let wanted = parse(start.value ?? "") ?? decode(format, bits).value;

  const choice = make("select", { id: `${id}-format` });
  for (const [name, { label }] of Object.entries(FORMATS)) {
    choice.append(make("option", { value: name }, label));
  }
  const field = make("input", {
    id: `${id}-typed`, type: "text", size: "14", autocomplete: "off", spellcheck: "false",
    "aria-describedby": `${id}-said`,
  });
  const store = make("button", { type: "submit" }, "Store");
  const down = make("button", { type: "button" }, "Step down");
  const up = make("button", { type: "button" }, "Step up");
  const said = make("p", { id: `${id}-said`, class: "bits-said", role: "status" });
  const row = make("div", { class: "bits-row", role: "group", "aria-label": "The bits" });
  const table = make("dl", { class: "bits-readout", "aria-label": "What the bits mean" });
  const controls = make(
    "form", { class: "bits-controls" },
    make("label", { for: choice.id }, "Format ", choice),
    make("label", { for: field.id }, "Value ", field),
    store, down, up,
  );
  let buttons = [];
  let current = 0; // the bit that Tab reaches; the arrow keys move on from there

  function drawBits() {
    const m = measures(format);
    const groups = [["sign", 1], ["exponent", m.exponentBits], ["fraction", m.fractionBits]];
    buttons = [];
    row.replaceChildren(
      ...groups.map(([name, size]) => {
        const inside = make("div", { class: "bits-cells" });
        for (let i = 0; i < size; i += 1) {
          const button = make("button", { type: "button", "data-place": buttons.length });
          buttons.push(button);
          inside.append(button);
        }
        const title = `${name}, ${size} ${size === 1 ? "bit" : "bits"}`;
        return make("div", { class: `bits-group bits-${name}` }, make("span", {}, title), inside);
      }),
    );
    current = Math.min(current, buttons.length - 1);
  }

  function refresh(message) {
    const text = bits.toString(2).padStart(buttons.length, "0");
    buttons.forEach((button, i) => {
      button.textContent = text[i];
      button.setAttribute("aria-pressed", String(text[i] === "1"));
      button.setAttribute("aria-label", `${nameOfBit(format, i)}: ${text[i]}`);
      button.tabIndex = i === current ? 0 : -1;
    });
    const lines = describe(format, bits);
    table.replaceChildren(
      ...lines.map(([name, text, key]) =>
        make("div", {}, make("dt", {}, name), make("dd", { "data-key": key }, text)),
      ),
    );
    choice.value = format;
    said.textContent = message;
    said.classList.remove("bits-wrong");
    const around = neighbors(format, bits);
    down.disabled = around.below === null;
    up.disabled = around.above === null;
  }

  function tell() {
    const { value, kind } = decode(format, bits);
    return Object.is(wanted, value) || wanted === value
      ? `${write(value)} is stored exactly: ${kind}.`
      : `${write(wanted)} is stored as ${write(value)}: ${kind}.`;
  }

  function setBits(next) {
    bits = next;
    wanted = decode(format, bits).value;
    field.value = write(wanted);
    refresh(tell());
    onChange({ format, bits });
  }

  function storeValue(value) {
    wanted = value;
    bits = encode(format, value);
    refresh(tell());
    onChange({ format, bits });
  }

  row.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    current = Number(button.dataset.place);
    const worth = 2 ** (buttons.length - 1 - current);
    setBits(button.textContent === "1" ? bits - worth : bits + worth);
    buttons[current].focus();
  });
  row.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -buttons.length, End: buttons.length };
    if (!(event.key in steps)) return;
    event.preventDefault();
    current = Math.min(Math.max(current + steps[event.key], 0), buttons.length - 1);
    buttons.forEach((button, i) => (button.tabIndex = i === current ? 0 : -1));
    buttons[current].focus();
  });
  controls.addEventListener("submit", (event) => {
    event.preventDefault();
    const value = parse(field.value);
    if (value !== null) return storeValue(value);
    said.textContent = `"${field.value}" is not a number: type one like 0.1, 2^-24, inf or nan.`;
    said.classList.add("bits-wrong");
  });
  choice.addEventListener("change", () => {
    format = choice.value;
    drawBits();
    storeValue(wanted);
  });
  down.addEventListener("click", () => storeNeighbor("below"));
  up.addEventListener("click", () => storeNeighbor("above"));
  function storeNeighbor(side) {
    setBits(encode(format, neighbors(format, bits)[side]));
  }

  claim(place, "Bit explorer");
  place.replaceChildren(controls, row, said, table);
  drawBits();
  field.value = write(wanted);
  refresh(tell());
  return {
    show(next) {
      if (next.format === format && next.bits === bits) return;
      ({ format, bits } = next);
      wanted = decode(format, bits).value;
      field.value = write(wanted);
      drawBits();
      refresh(tell());
    },
  };
}
