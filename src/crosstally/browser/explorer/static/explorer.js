// Comfort only: pages do the same without it. It sends nothing and loads nothing.
"use strict";
(() => {
  const status = document.getElementById("status");
  const say = (words) => { status.textContent = words; };

  // Lists are filtered while one types; the same form searches on the server.
  for (const input of document.querySelectorAll("input[data-filters]")) {
    const list = document.getElementById(input.dataset.filters);
    const count = document.querySelector(`[data-count="${input.dataset.filters}"]`);
    const items = Array.from(list.children, (item) => [item, item.textContent.toLowerCase()]);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const [item, text] of items) {
        item.hidden = !words.every((word) => text.includes(word));
        shown += item.hidden ? 0 : 1;
      }
      const told = document.body.dataset.shown.replace("{shown}", shown).replace("{all}", items.length);
      count.textContent = told;
      say(told);
    });
  }

  // Code is copied by a button, where the browser lets pages copy.
  if (navigator.clipboard) {
    for (const button of document.querySelectorAll("button.copy")) {
      button.hidden = false;
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
        say(document.body.dataset.copied);
      });
    }
  }

  // Empty fields stay out of the URL, so that links are short.
  for (const form of document.querySelectorAll("form")) {
    form.addEventListener("submit", () => {
      const empty = Array.from(form.elements).filter((field) => field.name && field.value === "");
      const plain = Array.from(form.querySelectorAll("select")).filter((field) => field.value === field.dataset.plain);
      for (const field of [...empty, ...plain]) field.disabled = true;
      window.setTimeout(() => { for (const field of [...empty, ...plain]) field.disabled = false; }, 0);
    });
  }
})();
