// Keys, the slider and the copy button. Everything else is done by htmx attributes and plain links.
"use strict";

const at = (selector) => document.querySelector(selector);
const links = () => [...document.querySelectorAll(".documents a.open")];

const selected = () => links().find((one) => one.dataset.selected);

function move(by) {
  const all = links();
  if (!all.length) return at(by > 0 ? "#next" : "#previous")?.click();
  const here = all.indexOf(selected());
  all[Math.min(Math.max(here + by, 0), all.length - 1)].focus();
}

// Before any document is selected, the first one in view is.
function label(name) {
  const all = links();
  if (all.length && !selected()) (all.find((one) => one.getBoundingClientRect().top >= 0) ?? all[0]).focus();
  const form = all.length ? selected().closest(".document").querySelector("form.label") : at("form.label");
  form?.querySelector(`button[value=${name}]`)?.click();
}

const keys = {
  j: () => move(1),
  k: () => move(-1),
  g: () => label("good"),
  b: () => label("bad"),
  n: () => at("form.label input[name=note]")?.focus(),
  u: () => at("#back")?.click(),
  "/": () => (at("#search") ? at("#search").focus() : (location.href = "/")),
  "?": () => at("#keys").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const field = event.target.closest("input, select, textarea");
  if (event.key === "Escape" && field) return field.blur();
  if (field || at("dialog[open]") || !(event.key in keys)) return;
  event.preventDefault();
  keys[event.key]();
});

// The document that has, or last had, the focus is the selected one.
document.addEventListener("focusin", (event) => {
  const link = event.target.closest(".document")?.querySelector("a.open");
  if (!link) return;
  links().forEach((one) => delete one.dataset.selected);
  link.dataset.selected = "yes";
});

document.addEventListener("input", (event) => {
  if (event.target.id === "slider") at("#value").value = event.target.value;
  if (event.target.id === "value") at("#slider").value = event.target.value;
});

document.addEventListener("click", async (event) => {
  const copied = event.target.dataset?.copy;
  if (event.target.id === "help") at("#keys").showModal();
  if (!copied) return;
  await navigator.clipboard.writeText(document.getElementById(copied).textContent);
  at("#copied").textContent = "copied";
});

// An answer replaces the button that was pressed, and with it the focus.
document.addEventListener("htmx:afterSwap", () => {
  if (document.activeElement === document.body) (selected() ?? at("form.label button"))?.focus();
});

// An error is shown where the answer would have been.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.xhr.status >= 400) {
    const found = new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html").querySelector("[role=alert]");
    event.detail.shouldSwap = true;
    event.detail.isError = false;
    event.detail.serverResponse = found ? found.outerHTML : "";
  }
});
