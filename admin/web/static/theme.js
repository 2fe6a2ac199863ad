"use strict";
// Before the page is drawn: the theme that was chosen here, if one was.
try {
  const chosen = localStorage.getItem("outrider-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch { /* storage is shut off: the system's theme */ }
// A session's pages are below a path of their own, which only pages of this origin know. A link without it leads to the form for a
// token, and from there, with a session, on to the page.
try {
  const page = document.documentElement.dataset, key = "outrider-session" + page.root;
  const asked = new URLSearchParams(location.search);
  if (page.session) localStorage.setItem(key, page.session);
  if ("login" in page && asked.has("ended")) localStorage.removeItem(key);
  const session = localStorage.getItem(key), next = asked.get("next") || "/";
  if ("login" in page && session && next.startsWith("/")) location.replace(session + next);
} catch { /* storage is shut off: each link without the path needs the token */ }
