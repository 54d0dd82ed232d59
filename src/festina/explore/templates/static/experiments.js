"use strict";
// Search among the cards of a page.
const search = document.querySelector(".search"), cards = [...document.querySelectorAll("[data-words]")];
function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const card of cards) {
    card.hidden = !words.every((word) => card.dataset.words.includes(word));
    count += !card.hidden;
  }
  for (const section of document.querySelectorAll(".source")) section.hidden = !section.querySelector("[data-words]:not([hidden])");
  document.querySelector(".none").hidden = count > 0;
  document.querySelector(".find output").value = words.length ? `${count} of ${cards.length}` : "";
  history.replaceState(null, "", words.length ? `?q=${encodeURIComponent(search.value)}` : location.pathname);
}
search.value = new URLSearchParams(location.search).get("q") ?? "";
search.oninput = filter;
filter();
