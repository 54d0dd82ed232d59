"use strict";
// Ticked runs are compared, so they must be of one experiment.
const boxes = [...document.querySelectorAll('.runs input[type="checkbox"]')], open = document.querySelector(".compare");
const experiment = (box) => box.closest("li").dataset.experiment;
function tick() {
  const ticked = boxes.filter((box) => box.checked), first = ticked[0];
  for (const box of boxes) box.disabled = Boolean(first) && experiment(box) !== experiment(first);
  open.disabled = ticked.length === 0;
  open.textContent = ticked.length > 1 ? `Compare ${ticked.length} runs` : "Open ticked run";
}
for (const box of boxes) box.onchange = tick;
if (open) addEventListener("pageshow", tick);  // a browser may restore ticks when it goes back
