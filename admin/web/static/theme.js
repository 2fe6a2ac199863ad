"use strict";
// Before the page is drawn: the theme that was chosen here, if one was.
try {
  const chosen = localStorage.getItem("outrider-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch { /* storage is shut off: the system's theme */ }
