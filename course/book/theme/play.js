// Shows the slider under each picture that has one, and changes the picture when it is moved.

for (const play of document.querySelectorAll(".play")) {
  const picture = play.querySelector("img");
  const label = play.querySelector("label");
  const slider = play.querySelector("input");
  const positions = JSON.parse(play.querySelector("script").textContent);
  const start = { place: slider.value, src: picture.src, alt: picture.alt };

  slider.addEventListener("input", () => {
    const position = positions[slider.value];
    const atStart = slider.value === start.place;
    picture.src = atStart ? start.src : `data:image/png;base64,${position.png}`;
    picture.alt = atStart ? start.alt : position.title;
    play.querySelector("output").value = position.value;
    slider.setAttribute("aria-valuetext", position.value);
  });
  slider.setAttribute("aria-valuetext", positions[start.place].value);
  label.hidden = false;
}
