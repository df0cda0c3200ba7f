// What can be done with a mouse can be done with the keyboard.

// Code that is wider than the page scrolls; it does so by the arrow keys once it has the focus.
const watcher = new ResizeObserver((entries) => {
  for (const { target: code } of entries) {
    if (code.scrollWidth > code.clientWidth) {
      code.tabIndex = 0;
    } else {
      code.removeAttribute("tabindex");
    }
  }
});
for (const code of document.querySelectorAll("pre > code")) {
  watcher.observe(code);
}

// mdBook's button for the sidebar is a label, which no key reaches.
const toggle = document.getElementById("mdbook-sidebar-toggle");
if (toggle) {
  toggle.setAttribute("role", "button");
  toggle.tabIndex = 0;
  toggle.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      toggle.click();
    }
  });
}
