// What readers do with charts: point, zoom, hide lines, smooth, change axes. The controls are made
// here, since they do nothing without the script.
#include "report/page/assets.h"

namespace reprise::report {

std::string_view control_script() {
  return R"js(
  function setUp(figure) {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const svg = figure.querySelector("svg");
    const state = { hidden: {}, isLog: data.values.log, zoom: null };
    let view = null, from = null;
    const isPositive = !data.stacked &&
      data.series.every((series) => series.y.every((value) => value > 0));
    const tools = child(figure.querySelector("figcaption"), "div");
    tools.className = "tools";
    const logButton = isPositive ? child(tools, "button", "log") : null;
    const resetButton = child(tools, "button", "reset zoom");

    function redraw() {
      view = layout(data, svg, state);
      drawChart(view, data, svg);
      resetButton.hidden = state.zoom === null;
      if (logButton) logButton.setAttribute("aria-pressed", String(state.isLog));
    }

    function valueAt(event) {
      const { left, right } = view.box, bounds = svg.getBoundingClientRect();
      const at = (event.clientX - bounds.left) / bounds.width * view.width;
      const share = Math.min(1, Math.max(0, (at - left) / (right - left)));
      return view.axes.x.low + share * (view.axes.x.high - view.axes.x.low);
    }

    function point(event) {
      const pointer = svg.querySelector(".pointer"), { box } = view;
      const wanted = valueAt(event);
      const find = data.held ? upTo : nearest;
      const shown = view.series.filter((one) => !one.isRaw);
      pointer.replaceChildren();
      tip.replaceChildren();
      if (!shown.length) return leave();
      const steps = shown.map((one) => one.x[find(one.x, wanted)]);
      const step = steps.reduce((a, b) => Math.abs(b - wanted) < Math.abs(a - wanted) ? b : a);
      if (from !== null) {
        const ends = [view.x(from), view.x(wanted)].sort((a, b) => a - b);
        const [width, height] = [ends[1] - ends[0], box.bottom - box.top];
        shape(pointer, "rect", { x: ends[0], y: box.top, width, height });
      }
      /* Thinned lines have no point at each step: one within a few pixels stands for it. */
      const reach = (view.axes.x.high - view.axes.x.low) / 200;
      shape(pointer, "line", { x1: view.x(step), x2: view.x(step), y1: box.top, y2: box.bottom });
      const stage = data.stages[upTo(data.stages.map((entry) => entry[0]), step)];
      const before = (stage ? stage[1] + ", " : "") + (view.isTime ? "after" : data.step.name);
      child(tip, "p", before + " " + formats[view.unit](step));
      const rows = [];
      let total = 0;
      for (const one of shown) {
        const index = nearest(one.x, step);
        if (Math.abs(one.x[index] - step) > reach) continue;
        total += one.y[index];
        const height = view.y(data.stacked ? total : one.y[index]);
        shape(pointer, "circle", { class: one.color, cx: view.x(one.x[index]), cy: height, r: 4 });
        rows.push([one.color, one.name, formats[data.unit](one.y[index])]);
      }
      if (data.stacked) rows.reverse().push(["", "total", formats[data.unit](total)]);
      for (const entry of rows) row(...entry);
      return showTip(event);
    }

    function leave() {
      svg.querySelector(".pointer").replaceChildren();
      tip.style.visibility = "hidden";
    }

    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", (event) => {
      from = valueAt(event);
      svg.setPointerCapture(event.pointerId);
      point(event);
    });
    svg.addEventListener("pointerup", (event) => {
      const ends = [from, valueAt(event)].sort((a, b) => a - b);
      from = null;
      if (Math.abs(view.x(ends[1]) - view.x(ends[0])) > 8) {
        state.zoom = ends;
        redraw();
      }
    });
    svg.addEventListener("pointercancel", () => { from = null; leave(); });
    svg.addEventListener("pointerleave", leave);
    const reset = () => { state.zoom = null; redraw(); };
    svg.addEventListener("dblclick", reset);
    resetButton.addEventListener("click", reset);
    if (logButton) {
      logButton.addEventListener("click", () => {
        state.isLog = !state.isLog;
        redraw();
      });
    }
    for (const button of figure.querySelectorAll("button.key")) {
      button.addEventListener("click", () => {
        const group = Number(button.dataset.group);
        state.hidden[group] = !state.hidden[group];
        button.setAttribute("aria-pressed", String(!state.hidden[group]));
        redraw();
      });
    }
    redraw();
    return { redraw: redraw, reset: reset, hasTime: data.series.some((series) => series.t),
             canSmooth: isOfSteps(data) && data.series.some((series) => series.x.length > 2) };
  }

  const charts = [...document.querySelectorAll("figure.chart")].map(setUp);
  const header = document.querySelector("header");

  function addControls() {
    const bar = document.createElement("div");
    bar.className = "controls";
    if (charts.some((chart) => chart.canSmooth)) {
      const name = child(bar, "label", "Smoothing ");
      const slider = child(name, "input");
      Object.assign(slider, { type: "range", min: 0, max: 0.99, step: 0.01, value: 0 });
      slider.addEventListener("input", () => {
        settings.smooth = Number(slider.value);
        for (const chart of charts) chart.redraw();
      });
    }
    if (charts.some((chart) => chart.hasTime)) {
      const button = child(bar, "button", "time axis");
      button.setAttribute("aria-pressed", "false");
      button.addEventListener("click", () => {
        settings.time = !settings.time;
        button.setAttribute("aria-pressed", String(settings.time));
        for (const chart of charts) chart.reset();
      });
    }
    child(bar, "span", "Drag in a chart to zoom, double-click to zoom out.");
    header.after(bar);
  }

  if (charts.length && header) addControls();
  let pending = 0;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(pending);
    pending = requestAnimationFrame(() => { for (const chart of charts) chart.redraw(); });
  });
)js";
}

}  // namespace reprise::report
