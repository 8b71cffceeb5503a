"use strict";
document.getElementById("sql").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.target.form.requestSubmit();
});
