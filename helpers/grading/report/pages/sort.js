// Turns the headings of a table into buttons that sort it; without this, it is as it was written.
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const value = (row, place) => {
    const cell = row.cells[place];
    return cell.dataset.sort ?? cell.textContent.trim();
  };
  const compare = (a, b) => {
    if (a === b) return 0;
    if (a === "" || b === "") return a === "" ? 1 : -1;
    const difference = Number(a) - Number(b);
    return Number.isNaN(difference) ? a.localeCompare(b, undefined, {numeric: true}) : difference;
  };
  headings.forEach((heading, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const turn = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      headings.forEach(other => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", turn === 1 ? "ascending" : "descending");
      const rows = [...body.rows].map(row => [value(row, place), row]);
      // What is empty comes last, whichever way it is sorted.
      rows.sort(([a], [b]) => (a === "" || b === "" ? 1 : turn) * compare(a, b));
      body.append(...rows.map(([, row]) => row));
    });
  });
}
