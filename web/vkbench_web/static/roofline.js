"use strict";
// The name of the timing that is nearest to the pointer, as a link: a finger need not hit a point.
(() => {
  const told = document.getElementById("behind");
  const picture = document.querySelector("svg.scatter");
  if (!told || !picture) return;
  const REACH = 28; // pixels
  let last = null;

  function nearest(x, y) {
    let best = null, least = REACH * REACH;
    for (const circle of picture.querySelectorAll("a circle")) {
      const box = circle.getBoundingClientRect();
      const away = (box.x + box.width / 2 - x) ** 2 + (box.y + box.height / 2 - y) ** 2;
      if (away < least) [best, least] = [circle, away];
    }
    return best;
  }

  function tell(circle) {
    if (!circle || circle === last) return;
    last?.classList.remove("told");
    circle.classList.add("told");
    last = circle;
    const spot = circle.closest("a");
    const link = document.createElement("a");
    link.href = spot.getAttribute("href");
    link.textContent = spot.querySelector("title").textContent;
    told.replaceChildren(link);
  }

  picture.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "touch") tell(event.target.closest("a")?.querySelector("circle"));
  });
  // A finger reads first: the name above the picture is the link.
  picture.addEventListener("click", (event) => {
    if (event.pointerType !== "touch") return;
    event.preventDefault();
    tell(nearest(event.clientX, event.clientY));
  });
})();
