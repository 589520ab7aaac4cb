// Draws every chart to the width of the screen, and again when a control changes: smoothing, step
// or time, a logarithmic axis, a zoom. The controls are made here, since they do nothing without
// it.
#include "report/page/assets.h"

namespace reprise::report {

std::string_view chart_script() {
  return R"js(
  const settings = { smooth: 0, time: false };

  /* The series as they are drawn now: {name, group, color, stroke, dots, x, y, broken}. */
  function shownSeries(data, hidden) {
    const all = [];
    const list = data.series.filter((series) => !hidden[series.group]);
    list.forEach((series, i) => {
      const x = settings.time && series.t ? series.t : series.x;
      const broken = settings.time && series.t
        ? series.broken.map((step) => series.t[upTo(series.x, step)]) : series.broken;
      const one = Object.assign({}, series, { x: x, broken: broken });
      const next = list[i + 1];
      const hasRaw = next && next.group === series.group && next.stroke === "line faint";
      if (!settings.smooth || data.stacked || series.x.length < 3) return all.push(one);
      if (hasRaw) return undefined;  /* drawn already smooth; the raw values follow */
      const faint = Object.assign({}, one, { stroke: "line faint", dots: false, isRaw: true });
      const stroke = series.stroke === "line faint" ? "line" : series.stroke;
      all.push(Object.assign({}, one, { stroke: stroke, y: smoothed(one.y, settings.smooth) }));
      return all.push(faint);
    });
    return all;
  }

  function totals(series) {
    const steps = [...series.map((one) => one.x)].flat().sort((a, b) => a - b);
    const x = steps.filter((step, i) => i === 0 || step !== steps[i - 1]);
    const sums = x.map(() => 0);
    const tops = series.map((one) => {
      let at = 0;
      x.forEach((step, i) => {
        while (at < one.x.length && one.x[at] < step) at += 1;
        if (one.x[at] === step) sums[i] += Math.max(0, one.y[at]);
      });
      return sums.slice();
    });
    return { x: x, tops: tops };
  }

  function rangeOf(lists, keeps) {
    let low = Infinity, high = -Infinity;
    for (const [x, y] of lists) {
      y.forEach((value, i) => {
        if (!keeps(x[i])) return;
        low = Math.min(low, value);
        high = Math.max(high, value);
      });
    }
    return low <= high ? [low, high] : [0, 1];
  }

  function setUp(figure) {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const svg = figure.querySelector("svg");
    const hidden = {};
    let isLog = data.values.log, zoom = null, view = null, from = null;
    const isPositive = !data.stacked &&
      data.series.every((series) => series.y.every((value) => value > 0));
    const tools = child(figure.querySelector("figcaption"), "div");
    tools.className = "tools";
    const logButton = isPositive ? child(tools, "button", "log") : null;
    const resetButton = child(tools, "button", "reset zoom");

    function layout() {
      const series = shownSeries(data, hidden);
      const width = Math.max(240, Math.round(svg.parentNode.clientWidth));
      const height = Math.round(Math.min(data.full ? 300 : 220, Math.max(180, width * 0.6)));
      const isTime = settings.time && series.some((one) => one.t);
      const unit = isTime ? "seconds" : data.step.unit;
      const all = series.map((one) => [one.x, one.x]);
      const [first, last] = zoom ||
        rangeOf(all.concat(series.map((one) => [one.broken, one.broken])), () => true);
      const x = linearAxis(first, Math.max(last, zoom || isTime ? last : data.steps.high), unit, true);
      const stack = data.stacked && series.length ? totals(series) : null;
      const keeps = (at) => at >= x.low && at <= x.high;
      const lists = stack ? [[stack.x, stack.tops[stack.tops.length - 1]]]
                          : series.filter((one) => !one.isRaw || !settings.smooth)
                                  .map((one) => [one.x, one.y]);
      let [low, high] = rangeOf(lists, keeps);
      for (const [at] of zoom ? [] : data.limits) high = Math.max(high, at);
      if (data.stacked) low = 0;
      if (data.stacked && !zoom) high = Math.max(high, data.reaches);
      if (data.zero && !isLog) [low, high] = [Math.min(low, 0), Math.max(high, 0)];
      if (data.share && low >= 0 && high <= 1 && !zoom && !isLog) [low, high] = [0, 1];
      const y = isLog && low > 0 ? logAxis(low, high, data.unit)
                                 : linearAxis(low, high, data.unit, false);
      const widest = Math.max(...y.ticks.map((tick) => tick[1].length), 3);
      const box = { left: Math.max(38, 14 + 6.6 * widest), right: width - 14,
                    top: data.sections.length && !isTime ? 26 : 10, bottom: height - 26 };
      return { series, width, height, unit, isTime, stack, axes: { x, y }, box,
               x: (at) => box.left + place(x, at) * (box.right - box.left),
               y: (value) => box.bottom - place(y, value) * (box.bottom - box.top) };
    }

    function drawAxes(group) {
      const { box, axes } = view;
      axes.y.ticks.forEach(([value, text], i) => {
        const y = view.y(value);
        shape(group, "line", { class: i ? "grid" : "base", x1: box.left, x2: box.right, y1: y, y2: y });
        shape(group, "text", { x: box.left - 8, y: y + 4, "text-anchor": "end" }, text);
      });
      let end = -Infinity;
      for (const [at, text] of axes.x.ticks) {
        const x = view.x(at), half = 3.3 * text.length + 4;
        if (x - half < end) continue;
        end = x + half;
        shape(group, "line", { class: "tick", x1: x, x2: x, y1: box.bottom, y2: box.bottom + 4 });
        const anchor = x + half > view.width ? "end" : "middle";
        shape(group, "text", { x: x, y: box.bottom + 18, "text-anchor": anchor }, text);
      }
      const name = view.isTime ? "time" : data.step.name;
      shape(group, "text", { x: box.left - 8, y: box.bottom + 18, "text-anchor": "end" }, name);
    }

    function drawLine(group, one) {
      let path = "", at = 0, isJoined = false;
      one.x.forEach((x, i) => {
        for (; at < one.broken.length && one.broken[at] <= x; at += 1) isJoined = false;
        if (view.axes.y.log && one.y[i] <= 0) return;
        path += (isJoined ? "L" : "M") + view.x(x).toFixed(1) + "," + view.y(one.y[i]).toFixed(1);
        isJoined = true;
        if (one.dots || one.x.length === 1) {
          shape(group, "circle", { class: "dot", r: 3, cx: view.x(x), cy: view.y(one.y[i]) });
        }
      });
      shape(group, "path", { class: one.stroke, d: path });
      for (const step of one.broken) {
        shape(group, "path", { class: "broken", d: `M${view.x(step)},${view.box.bottom - 9}l5,9h-10z` });
      }
    }

    function drawStack(group) {
      const { x, tops } = view.stack;
      const edge = (values) => x.map((at, i) => {
        const held = data.held && i ? [[at, values[i - 1]]] : [];
        return held.concat([[at, values[i]]]);
      }).flat().concat(x.length === 1 ? [[x[0] + 1, values[0]]] : []);
      tops.forEach((top, i) => {
        const below = edge(i ? tops[i - 1] : top.map(() => 0)).reverse();
        const text = (point) => view.x(point[0]).toFixed(1) + "," + view.y(point[1]).toFixed(1);
        const part = shape(group, "g", { class: view.series[i].color });
        shape(part, "path", { class: "area", d: "M" + edge(top).concat(below).map(text).join("L") + "z" });
      });
    }

    function redraw() {
      view = layout();
      svg.setAttribute("viewBox", `0 0 ${view.width} ${view.height}`);
      svg.replaceChildren();
      const { box } = view;
      drawAxes(shape(svg, "g", { class: "axes" }));
      /* An inner picture cuts off what a zoom leaves out. */
      const [x, y, width, height] =
        [box.left - 4, box.top - 5, box.right - box.left + 8, box.bottom - box.top + 6];
      const lines = shape(svg, "svg", { x, y, width, height, viewBox: `${x} ${y} ${width} ${height}` });
      if (view.stack) drawStack(lines);
      else view.series.slice().reverse().forEach((one) => drawLine(shape(lines, "g", { class: one.color }), one));
      const marks = shape(svg, "g", { class: "marks" });
      for (const [at, name] of view.isTime ? [] : data.sections) {
        if (at < view.axes.x.low || at > view.axes.x.high) continue;
        shape(marks, "line", { class: "section", x1: view.x(at), x2: view.x(at), y1: box.top - 16, y2: box.bottom });
        shape(marks, "text", { x: view.x(at) + 5, y: box.top - 7 }, name);
      }
      for (const [at, name] of data.limits) {
        if (at > view.axes.y.high || at < view.axes.y.low) continue;
        const y = view.y(at);
        shape(marks, "line", { class: "limit", x1: box.left, x2: box.right, y1: y, y2: y });
        shape(marks, "text", { x: box.right - 4, y: y - 5, "text-anchor": "end" }, name);
      }
      shape(svg, "g", { class: "pointer" });
      resetButton.hidden = zoom === null;
      if (logButton) logButton.setAttribute("aria-pressed", String(isLog));
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
      const shown = view.series.filter((one) => !one.isRaw || !settings.smooth);
      pointer.replaceChildren();
      tip.replaceChildren();
      if (!shown.length) return leave();
      const steps = shown.map((one) => one.x[find(one.x, wanted)]);
      const step = steps.reduce((a, b) => Math.abs(b - wanted) < Math.abs(a - wanted) ? b : a);
      if (from !== null) {
        const ends = [view.x(from), view.x(wanted)].sort((a, b) => a - b);
        shape(pointer, "rect", { x: ends[0], width: ends[1] - ends[0], y: box.top, height: box.bottom - box.top });
      }
      /* Thinned lines have no point at each step: one within a few pixels stands for it. */
      const reach = (view.axes.x.high - view.axes.x.low) / 200;
      shape(pointer, "line", { x1: view.x(step), x2: view.x(step), y1: box.top, y2: box.bottom });
      const stage = data.stages[upTo(data.stages.map((entry) => entry[0]), step)];
      child(tip, "p", (stage ? stage[1] + ", " : "") + (view.isTime ? "after" : data.step.name) + " " +
                      formats[view.unit](step));
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
        zoom = ends;
        redraw();
      }
    });
    svg.addEventListener("pointercancel", () => { from = null; leave(); });
    svg.addEventListener("pointerleave", leave);
    const reset = () => { zoom = null; redraw(); };
    svg.addEventListener("dblclick", reset);
    resetButton.addEventListener("click", reset);
    if (logButton) logButton.addEventListener("click", () => { isLog = !isLog; redraw(); });
    for (const button of figure.querySelectorAll("button.key")) {
      button.addEventListener("click", () => {
        const group = Number(button.dataset.group);
        hidden[group] = !hidden[group];
        button.setAttribute("aria-pressed", String(!hidden[group]));
        redraw();
      });
    }
    redraw();
    return { redraw: redraw, reset: reset, hasTime: data.series.some((series) => series.t),
             canSmooth: !data.stacked && data.series.some((series) => series.x.length > 2) };
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
