// What explorables share. An explorable's own module follows in the same file: it exports
// `mount(place, state, onChange)`, which fills `place` and returns {show(state)}.

// Where the browser keeps what is predicted in a page.
const PREDICTED = "bits-prediction ";

let count = 0;

function uniqueId(name) {
  return `bits-${name}-${(count += 1)}`;
}

function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
}

function fill(node, attributes, children) {
  set(node, attributes);
  node.append(...children);
  return node;
}

function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function makeSvg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/** Add `text` to `node`; what stands between backticks is code. */
function addMarked(node, text) {
  for (const [k, part] of text.split("`").entries()) {
    node.append(k % 2 ? make("code", {}, part) : part);
  }
  return node;
}

/** Return a number with three digits, and all before the point. */
function shorten(number) {
  if (Number.isNaN(number)) return "nan";
  if (!Number.isFinite(number)) return number < 0 ? "-inf" : "inf";
  if (Math.abs(number) >= 1000) return `${Math.round(number)}`;
  // toLocaleString would round the shortest decimal, 3.465 up, and not the number itself, which is a little less.
  const rounded = Number(number.toPrecision(3));
  return rounded.toLocaleString("en-US", { maximumSignificantDigits: 3, useGrouping: false });
}

/** Return words as a list in a sentence. */
function list(words, last = "and") {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} ${last} ${words.at(-1)}`;
}

/** Return a word as it is, and a number with its unit. */
function tell(value, unit) {
  if (typeof value === "string") return value;
  return `${shorten(value)}${!unit || unit === "%" ? unit : ` ${unit}`}`;
}

/** Make `place` an explorable's own: what is typed there is nobody else's. */
function claim(place, label) {
  place.classList.add("bits-explorable");
  place.setAttribute("role", "group");
  place.setAttribute("aria-label", label);
  place.setAttribute("data-lm-suppress-shortcuts", "true"); // JupyterLab's, which come earlier
  // The book has shortcuts of its own for letters and arrows.
  place.addEventListener("keydown", (event) => event.stopPropagation());
}

/** Bring to life what stands in `page` as a still picture. */
export function mountAll(page, name, mount) {
  // The page for printing has this script once for each page that it holds.
  for (const place of page.querySelectorAll(`[data-explorable="${name}"]:not([data-live])`)) {
    place.dataset.live = "";
    mount(place, JSON.parse(place.dataset.state));
  }
}

/** Return what anywidget starts. */
export function asWidget(mount) {
  return {
    render({ model, el }) {
      const place = make("div");
      el.append(place);
      const explorable = mount(place, model.get("state"), (state) => {
        model.set("state", state);
        model.save_changes();
      });
      const follow = () => explorable.show(model.get("state"));
      model.on("change:state", follow);
      return () => model.off("change:state", follow);
    },
  };
}
