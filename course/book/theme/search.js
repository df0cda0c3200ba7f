// The search: a dialog that asks Pagefind's index, which helpers/authoring/search_index.py writes.
(() => {
  const MOST_PAGES = 10;
  const MOST_SECTIONS = 3;
  const LONG = 700; // milliseconds without an answer
  const LENS =
    '<span class="fa-svg"><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16" ' +
    'fill="none" stroke="currentColor" stroke-width="2" aria-hidden="true">' +
    '<circle cx="6.5" cy="6.5" r="5" /><path d="M10.5 10.5 15 15" /></svg></span>';

  const place = document.querySelector("#mdbook-menu-bar .left-buttons");
  if (!place) {
    return;
  }
  place.insertAdjacentHTML(
    "beforeend",
    `<button class="icon-button" type="button" title="Search (\`/\`)" aria-label="Search"
      aria-haspopup="dialog" aria-keyshortcuts="/ s">${LENS}</button>`,
  );
  document.body.insertAdjacentHTML(
    "beforeend",
    `<dialog id="bits-search" aria-label="Search">
      <form role="search">
        <label for="bits-search-text">Search this book</label>
        <button type="button">Close</button>
        <input id="bits-search-text" type="search" autocomplete="off" spellcheck="false">
      </form>
      <p role="status"></p>
      <ol></ol>
    </dialog>`,
  );
  document
    .querySelector("#mdbook-help-popup > div")
    ?.insertAdjacentHTML(
      "afterbegin",
      "<p>Press <kbd>S</kbd> or <kbd>/</kbd> to search in the book</p>",
    );
  const isFromADisk = location.protocol === "file:";
  const dialog = document.getElementById("bits-search");
  const form = dialog.querySelector("form");
  const input = dialog.querySelector("input");
  const status = dialog.querySelector("[role=status]");
  const list = dialog.querySelector("ol");

  // What is typed, and what Pagefind is asked

  // As in the index, a Chinese character is a word, and so is each part of a name with dots.
  const wordsOf = (typed) =>
    typed
      .replace(/(?<=\p{Script=Han})(?=\p{Script=Han})/gu, " ")
      .replace(/[.()[\]=]+/g, " ")
      .trim();
  const isPhrase = (typed) => /^\p{Script=Han}{2,}$/u.test(typed);

  async function ask(typed) {
    const words = wordsOf(typed);
    const answer = await pagefind.debouncedSearch(isPhrase(typed) ? `"${words}"` : words, {}, 150);
    if (answer && isPhrase(typed)) {
      // Pagefind counts each page with the phrase alike; as words, the fitter page counts more.
      const order = (await pagefind.search(words)).results.map((result) => result.id);
      answer.results.sort((a, b) => order.indexOf(a.id) - order.indexOf(b.id));
    }
    return answer?.results;
  }

  // Takes out the spaces that the index has put between words.
  function together(text) {
    return text.replace(/\u2063(<\/mark>)? ?/g, "$1").replaceAll("</mark><mark>", "");
  }

  // For a word that no page has, Pagefind takes its first letters: "xyzzy" would find "xy".
  function isMeant(typed, best) {
    const words = best.content.toLowerCase().split(/\s+/);
    const found = best.locations.map((index) => words[index]).join(" ");
    const asked = wordsOf(typed).toLowerCase().match(/[\p{Letter}\p{Number}_]+/gu) ?? [];
    return asked.every((word) => found.includes(word.slice(0, Math.ceil(word.length / 2))));
  }

  let pagefind;
  async function load() {
    const address = new URL(`${path_to_root}pagefind/pagefind.js`, document.baseURI);
    pagefind ??= await import(address);
    await pagefind.init();
  }

  async function search() {
    const typed = input.value.trim();
    if (!wordsOf(typed) || isFromADisk) {
      show([], ...(wordsOf(typed) ? neededFromADisk() : []));
      return;
    }
    // Meanwhile something else may have been typed.
    const isAsked = () => typed === input.value.trim();
    const waiting = setTimeout(() => isAsked() && show([], "Searching…"), LONG);
    try {
      await load();
      // Several letters can wait for it, and not go on in the order in which they were typed.
      if (!isAsked()) {
        return;
      }
      const found = await ask(typed);
      const best = found?.slice(0, MOST_PAGES).map((result) => result.data());
      const pages = await Promise.all(best ?? []);
      if (!found || !isAsked()) {
        return;
      }
      const meant = pages.length && isMeant(typed, pages[0]);
      show(meant ? pages : [], said(typed, meant ? found.length : 0));
    } catch (error) {
      show([], "The search’s index cannot be loaded; load the page again, or build the book again.");
      console.warn(error);
    } finally {
      clearTimeout(waiting);
    }
  }

  // What is shown

  function neededFromADisk() {
    const command = document.createElement("code");
    command.textContent = "make book-serve";
    const before = "The search works only on a site that comes from a server: type ";
    return [before, command, ", and open the address that it prints."];
  }

  function said(typed, count) {
    if (!count) {
      return `Nothing found for “${typed}”.`;
    }
    const pages = count === 1 ? "1 page" : `${count} pages`;
    const best = count > MOST_PAGES ? `; the first ${MOST_PAGES} are shown` : "";
    return `${pages} found for “${typed}”${best}.`;
  }

  function show(pages, ...message) {
    status.replaceChildren(...message);
    list.replaceChildren(...pages.map(pageItem));
  }

  function pageItem(page) {
    const title = page.meta.title;
    const weight = ({ weighted_locations: all }) =>
      all.reduce((sum, { balanced_score: score }) => sum + score, 0);
    const best = [...page.sub_results].sort((a, b) => weight(b) - weight(a));
    // What stands before the first section has the page's own title.
    const isTop = (part) => part.title === title || !part.url.includes("#");
    const sections = best.slice(0, MOST_SECTIONS).filter((part) => !isTop(part));
    const inner = document.createElement("ul");
    inner.append(...sections.map((part) => entry(part.url, part.title, part.excerpt)));
    const top = best.slice(0, MOST_SECTIONS).find(isTop);
    const item = entry(page.url, title, top?.excerpt);
    if (page.meta.chapter) {
      const chapter = document.createElement("small");
      // Pagefind ends what it takes for a paragraph with a period.
      chapter.textContent = `in ${together(page.meta.chapter).replace(/\.$/, "")}`;
      item.querySelector("a").after(" ", chapter);
    }
    if (sections.length) {
      item.append(inner);
    }
    return item;
  }

  function entry(url, title, excerpt) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = url;
    link.textContent = together(title);
    item.append(link);
    if (excerpt) {
      const text = document.createElement("p");
      // Pagefind's excerpt is HTML, in which all but <mark> is escaped.
      text.innerHTML = together(excerpt).replace(/^[·.,;:\s]+/, "");
      item.append(text);
    }
    return item;
  }

  // Keys and clicks

  function open() {
    dialog.showModal();
    input.select();
    // A slow machine takes seconds for it: while the reader types. A search says what went wrong.
    if (!isFromADisk) {
      load().catch(() => {});
    }
  }

  function step(by) {
    const stops = [input, ...list.querySelectorAll("a")];
    const next = stops.indexOf(document.activeElement) + by;
    stops[Math.min(Math.max(next, 0), stops.length - 1)].focus();
  }

  // mdBook asks it whether a key is meant for the search.
  window.search = { hasFocus: () => dialog.open };

  document.addEventListener("keydown", (event) => {
    const isText = event
      .composedPath()
      .some((box) => box.isContentEditable || /^(input|select|textarea)$/i.test(box.nodeName));
    const isOther = event.altKey || event.ctrlKey || event.metaKey || isText;
    if (!dialog.open && !isOther && ["s", "S", "/"].includes(event.key)) {
      event.preventDefault();
      open();
    }
  });

  dialog.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps) {
      event.preventDefault();
      step(steps[event.key]);
    } else if (event.key === "Escape") {
      // In the input, a browser would only empty it.
      event.preventDefault();
      dialog.close();
    }
  });

  place.lastElementChild.addEventListener("click", open);
  form.querySelector("button").addEventListener("click", () => dialog.close());
  input.addEventListener("input", search);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    list.querySelector("a")?.click();
  });
  // A section of the page that is open needs no new page; a click beside the dialog leaves it.
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.closest("a")) {
      dialog.close();
    }
  });
})();
