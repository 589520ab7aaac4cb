// The page's script: values under the pointer, and legend items that hide their lines. Text is
// always set as text, never as markup.
#include "report/page/assets.h"

namespace reprise::report {

std::string_view page_script() {
  return R"js(
"use strict";
(() => {
  const tip = document.getElementById("tip");

  function scaled(value, units, base) {
    let unit = 0;
    while (Math.abs(value) >= base - 0.5 && unit + 1 < units.length) {
      value /= base;
      unit += 1;
    }
    const size = Math.abs(value);
    return value.toFixed(!unit || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2) + units[unit];
  }

  function milliseconds(value) {
    if (value < 1000) return value.toPrecision(3) + " ms";
    return value < 60000 ? (value / 1000).toFixed(2) + " s" : (value / 60000).toFixed(1) + " min";
  }

  const formats = {
    number: (value) => String(Number.isInteger(value) ? value : Number(value.toPrecision(6))),
    bytes: (value) => scaled(value, [" B", " KiB", " MiB", " GiB", " TiB", " PiB"], 1024),
    ms: milliseconds,
    rate: (value) => scaled(value, ["", "k", "M", "G", "T"], 1000) + " tokens/s",
    share: (value) => (100 * value).toFixed(1) + " %",
  };

  function place(axis, value) {
    if (axis.log) return Math.log(value / axis.low) / Math.log(axis.high / axis.low);
    return (value - axis.low) / (axis.high - axis.low);
  }

  /* The index of the number nearest to `wanted`; the list ascends. */
  function nearest(list, wanted) {
    let low = 0, high = list.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle] < wanted) low = middle + 1;
      else high = middle;
    }
    return low > 0 && wanted - list[low - 1] <= list[low] - wanted ? low - 1 : low;
  }

  /* The index of the last number up to `wanted`, for values that last until the next one. */
  function upTo(list, wanted) {
    const index = nearest(list, wanted);
    return index > 0 && list[index] > wanted ? index - 1 : index;
  }

  function child(parent, name, text) {
    const node = parent.appendChild(document.createElement(name));
    if (text !== undefined) node.textContent = text;
    return node;
  }

  function shape(parent, name, attributes) {
    const node = document.createElementNS(parent.namespaceURI, name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    return parent.appendChild(node);
  }

  function row(color, name, value) {
    const line = child(tip, "div");
    line.className = color;
    child(line, "i");
    child(line, "span", name);
    child(line, "b", value);
  }

  function showTip(event) {
    tip.style.visibility = "visible";
    const { width, height } = tip.getBoundingClientRect();
    const left = event.clientX + 16 + width > innerWidth ? event.clientX - 16 - width
                                                         : event.clientX + 16;
    const top = Math.min(Math.max(8, event.clientY - height / 2), innerHeight - height - 8);
    tip.style.transform = `translate(${Math.max(8, left)}px, ${top}px)`;
  }

  for (const figure of document.querySelectorAll("figure.chart")) {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const svg = figure.querySelector("svg");
    const pointer = svg.querySelector(".pointer");
    const [left, right, top, bottom] = data.plot;
    const hidden = new Set();  // allow: owning-new
    const x = (step) => left + place(data.steps, step) * (right - left);
    const y = (value) => bottom - place(data.values, value) * (bottom - top);

    function draw(event) {
      const box = svg.getBoundingClientRect();
      const at = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
      const wanted = data.steps.low +
        (at - left) / (right - left) * (data.steps.high - data.steps.low);
      const shown = data.series.filter((series) => !hidden.has(series.group));
      if (!shown.length) return leave();
      const find = data.held ? upTo : nearest;
      const steps = shown.map((series) => series.x[find(series.x, wanted)]);
      const step = steps.reduce((a, b) => Math.abs(b - wanted) < Math.abs(a - wanted) ? b : a);
      /* Thinned lines have no point at each step: one within a few pixels stands for it. */
      const reach = (data.steps.high - data.steps.low) / 200;
      pointer.replaceChildren();
      tip.replaceChildren();
      shape(pointer, "line", { x1: x(step), x2: x(step), y1: top, y2: bottom });
      const stage = data.stages[upTo(data.stages.map((entry) => entry[0]), step)];
      child(tip, "p", (stage ? stage[1] + ", " : "") + data.step.name + " " +
                      formats[data.step.unit](step));
      const rows = [];
      let total = 0;
      for (const series of shown) {
        const index = nearest(series.x, step);
        if (Math.abs(series.x[index] - step) > reach) continue;
        const value = series.y[index];
        total += value;
        const height = y(data.stacked ? total : value);
        shape(pointer, "circle", { class: series.color, cx: x(series.x[index]), cy: height, r: 4 });
        rows.push([series.color, series.name, formats[data.unit](value)]);
      }
      if (data.stacked) {
        rows.reverse();
        rows.push(["", "total", formats[data.unit](total)]);
      }
      for (const entry of rows) row(...entry);
      showTip(event);
    }

    function leave() {
      pointer.replaceChildren();
      tip.style.visibility = "hidden";
    }

    svg.addEventListener("pointermove", draw);
    svg.addEventListener("pointerdown", draw);
    svg.addEventListener("pointerleave", leave);
    for (const button of figure.querySelectorAll("button.key")) {
      button.addEventListener("click", () => {
        const group = Number(button.dataset.group);
        const hide = !hidden.has(group);
        if (hide) hidden.add(group);
        else hidden.delete(group);
        button.setAttribute("aria-pressed", String(!hide));
        for (const lines of svg.querySelectorAll(`g[data-group="${group}"]`)) {
          lines.style.display = hide ? "none" : "";
        }
      });
    }
  }
})();
)js";
}

}  // namespace reprise::report
