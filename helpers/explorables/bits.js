// With floats.js. The bit explorer: one number as its bits.

// ---- Words

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

/** Return what each format stores of `value`, and the relative error: rows of words. */
export function compare(value) {
  return Object.entries(FORMATS).map(([format, { label }]) => {
    const stored = decode(format, encode(format, value)).value;
    const error = Math.abs(stored - value) / Math.abs(value);
    const percent = stored === value ? 0 : 100 * error;
    const told = percent > 0 && percent < 0.001 ? percent.toExponential(2) : shorten(percent);
    const bits = String(measures(format).width);
    return [label.replace(/ \(.*/, ""), bits, write(stored), Number.isFinite(error) ? `${told}%` : "\u2013"];
  });
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
  const beside = make("details", { class: "bits-beside" }, make("summary", {}, "Compare the formats"), make("table"));
  beside.open = Boolean(start.beside);
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
    const row = (tag, words) => make("tr", {}, ...words.map((word) => make(tag, {}, word)));
    beside.lastElementChild.replaceWith(
      make(
        "table", {}, make("thead", {}, row("th", ["format", "bits", "stored", "off by"])),
        make("tbody", {}, ...compare(wanted).map((words) => row("td", words))),
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
  place.replaceChildren(controls, row, said, table, beside);
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
