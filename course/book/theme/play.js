// Shows the slider under each picture that has one, and changes the picture when it is moved.

const DARK_PICTURE = "--bits-dark-picture";

function showPicture(picture, { light, dark, alt }) {
  picture.src = light;
  picture.style.setProperty(DARK_PICTURE, dark);
  picture.alt = alt;
}

for (const play of document.querySelectorAll(".play")) {
  const picture = play.querySelector("img");
  const label = play.querySelector("label");
  const slider = play.querySelector("input");
  const positions = JSON.parse(play.querySelector("script").textContent);
  const start = {
    place: slider.value,
    light: picture.src,
    dark: picture.style.getPropertyValue(DARK_PICTURE),
    alt: picture.alt,
  };

  slider.addEventListener("input", () => {
    const { value, title, light, dark } = positions[slider.value];
    const drawn = {
      light: `data:image/png;base64,${light}`,
      dark: `url(data:image/png;base64,${dark})`,
      alt: title,
    };
    showPicture(picture, slider.value === start.place ? start : drawn);
    play.querySelector("output").value = value;
    slider.setAttribute("aria-valuetext", value);
  });
  slider.setAttribute("aria-valuetext", positions[start.place].value);
  label.hidden = false;
}
