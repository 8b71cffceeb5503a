// What stands behind a cell is said in one place, for the mouse and the keyboard alike.
// The arrow keys go from cell to cell.
"use strict";

const told = document.getElementById("behind");
const map = document.querySelector(".heat-map");

function tell(event) {
  const cell = event.target.closest("td a");
  if (cell) told.textContent = cell.title;
}

function neighbour(cell, right, down) {
  const rows = Array.from(map.querySelectorAll("tbody tr:not(.family)"));
  let row = rows.indexOf(cell.parentElement);
  let place = cell.cellIndex;
  do {
    row += down;
    place += right;
    const next = rows[row]?.cells[place];
    if (!next) return null;
    const link = next.querySelector("a");
    if (link) return link;
  } while (true);
}

if (map) {
  map.addEventListener("mouseover", tell);
  map.addEventListener("focusin", tell);
  map.addEventListener("keydown", (event) => {
    const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    const cell = event.target.closest("td, th");
    if (!step || !cell || cell === event.target) return;
    const next = neighbour(cell, ...step);
    if (next) {
      event.preventDefault();
      next.focus();
    }
  });
}
