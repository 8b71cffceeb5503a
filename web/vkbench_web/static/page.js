"use strict";
// A choice filters at once; without scripts its form has a button.
document.addEventListener("change", (event) => {
  const form = event.target.closest("form.filters");
  if (form && event.target.tagName === "SELECT") form.requestSubmit();
});
// Filters that say nothing stay out of the address.
document.addEventListener("submit", (event) => {
  if (!event.target.matches("form.filters")) return;
  for (const field of event.target.elements) if (field.name && field.value === "") field.disabled = true;
});
