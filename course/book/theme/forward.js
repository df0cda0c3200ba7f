// A chapter was one page: an address that leads into it goes on to the page of the section.
{
  const list = document.querySelector("script.forward");
  // The page for printing holds all chapters, and so all lists.
  const isPrint = /\/print(\.html)?$/.test(location.pathname);

  const forward = () => {
    // As an address, an anchor is written in another way if it is not ASCII.
    const isAsked = ([anchor]) => new URL(`#${anchor}`, location.href).hash === location.hash;
    const moved = Object.entries(JSON.parse(list.textContent)).find(isAsked);
    if (moved) {
      location.replace(new URL(moved[1], location.href));
    }
  };

  if (list && !isPrint) {
    forward();
    window.addEventListener("hashchange", forward);
  }
}
