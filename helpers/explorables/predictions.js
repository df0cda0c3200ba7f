// What was predicted in a chapter, beside what came.

function readBrowser(chapter) {
  const kept = [];
  try {
    for (const key of Object.keys(localStorage).sort()) {
      if (key.startsWith(`${PREDICTED}${chapter}/`)) kept.push(JSON.parse(localStorage.getItem(key)));
    }
  } catch {
    // A browser that keeps nothing for this page.
  }
  return kept;
}

/** Fill `place` with a table of {kept}, or of what the browser keeps of {chapter}. */
export function mount(place, start) {
  const kept = start.kept ?? readBrowser(start.chapter);
  const rows = kept.map(({ question, given, truth, unit }) =>
    make(
      "tr", {}, addMarked(make("td", {}), question),
      addMarked(make("td", {}), tell(given, unit)), addMarked(make("td", {}), tell(truth, unit)),
    ),
  );
  const head = ["Question", "You predicted", "It is"].map((title) => make("th", { scope: "col" }, title));
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
  const none = make("p", { class: "bits-said" }, "Nothing has been predicted in this chapter yet.");
  claim(place, "What you predicted");
  place.replaceChildren(rows.length ? table : none);
  return { show() {} };
}
