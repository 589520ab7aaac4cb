// Draws a chart to the width of the screen: which values, where, and as which shapes. It looks like
// the static one that it replaces.
#include "report/page/assets.h"

namespace reprise::report {

std::string_view chart_script() {
  return R"js(
  const settings = { smooth: 0, time: false };

  function isOfSteps(data) {
    return !data.stacked && data.step.name === "step";
  }

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
      const isSmooth = settings.smooth && isOfSteps(data) && series.x.length > 2;
      if (!isSmooth) return all.push(one);
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

  /* Where everything is: `state` has hidden groups, isLog and zoom. */
  function layout(data, svg, state) {
    const { isLog, zoom } = state;
    const series = shownSeries(data, state.hidden);
    const width = Math.max(240, Math.round(svg.parentNode.clientWidth));
    const height = Math.round(Math.min(data.full ? 300 : 220, Math.max(180, width * 0.6)));
    const isTime = settings.time && series.some((one) => one.t);
    const unit = isTime ? "seconds" : data.step.unit;
    const all = series.map((one) => [one.x, one.x]);
    const [first, last] = zoom ||
      rangeOf(all.concat(series.map((one) => [one.broken, one.broken])), () => true);
    const end = zoom || isTime ? last : Math.max(last, data.steps.high);
    const x = linearAxis(first, end, unit, true);
    const stack = data.stacked && series.length ? totals(series) : null;
    const keeps = (at) => at >= x.low && at <= x.high;
    const lists = stack ? [[stack.x, stack.tops[stack.tops.length - 1]]]
                        : series.filter((one) => !one.isRaw).map((one) => [one.x, one.y]);
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

  function drawAxes(view, data, group) {
    const { box, axes } = view;
    axes.y.ticks.forEach(([value, text], i) => {
      const y = view.y(value);
      const name = i ? "grid" : "base";
      shape(group, "line", { class: name, x1: box.left, x2: box.right, y1: y, y2: y });
      shape(group, "text", { x: box.left - 8, y: y + 4, "text-anchor": "end" }, text);
    });
    let end = box.left - 6;  /* of the axis's name */
    for (const [at, text] of axes.x.ticks) {
      const x = view.x(at), half = 3.3 * text.length + 4;
      shape(group, "line", { class: "tick", x1: x, x2: x, y1: box.bottom, y2: box.bottom + 4 });
      if (x - half < end) continue;
      end = x + half;
      const anchor = x + half > view.width ? "end" : "middle";
      shape(group, "text", { x: x, y: box.bottom + 18, "text-anchor": anchor }, text);
    }
    const name = view.isTime ? "time" : data.step.name;
    shape(group, "text", { x: box.left - 8, y: box.bottom + 18, "text-anchor": "end" }, name);
  }

  function drawLine(view, group, one) {
    let path = "", next = 0, isJoined = false;
    one.x.forEach((x, i) => {
      for (; next < one.broken.length && one.broken[next] <= x; next += 1) isJoined = false;
      if (view.axes.y.log && one.y[i] <= 0) return;
      path += (isJoined ? "L" : "M") + view.x(x).toFixed(1) + "," + view.y(one.y[i]).toFixed(1);
      isJoined = true;
      if (one.dots || one.x.length === 1) {
        shape(group, "circle", { class: "dot", r: 3, cx: view.x(x), cy: view.y(one.y[i]) });
      }
    });
    shape(group, "path", { class: one.stroke, d: path });
    for (const step of one.broken) {
      const at = `M${view.x(step)},${view.box.bottom - 9}`;
      shape(group, "path", { class: "broken", d: at + "l5,9h-10z" });
    }
  }

  function drawStack(view, data, group) {
    const { x, tops } = view.stack;
    const edge = (values) => x.map((at, i) => {
      const held = data.held && i ? [[at, values[i - 1]]] : [];
      return held.concat([[at, values[i]]]);
    }).flat().concat(x.length === 1 ? [[x[0] + 1, values[0]]] : []);
    tops.forEach((top, i) => {
      const below = edge(i ? tops[i - 1] : top.map(() => 0)).reverse();
      const text = (point) => view.x(point[0]).toFixed(1) + "," + view.y(point[1]).toFixed(1);
      const part = shape(group, "g", { class: view.series[i].color });
      const path = "M" + edge(top).concat(below).map(text).join("L") + "z";
      shape(part, "path", { class: "area", d: path });
    });
  }

  function drawMarks(view, data, marks) {
    const { box } = view;
    for (const [at, name] of view.isTime ? [] : data.sections) {
      if (at < view.axes.x.low || at > view.axes.x.high) continue;
      const x = view.x(at);
      shape(marks, "line", { class: "section", x1: x, x2: x, y1: box.top - 16, y2: box.bottom });
      const isLate = x + 7 * name.length + 5 > view.width;
      const anchor = { "text-anchor": isLate ? "end" : "start" };
      shape(marks, "text", { x: x + (isLate ? -5 : 5), y: box.top - 7, ...anchor }, name);
    }
    for (const [at, name] of data.limits) {
      if (at > view.axes.y.high || at < view.axes.y.low) continue;
      const y = view.y(at);
      shape(marks, "line", { class: "limit", x1: box.left, x2: box.right, y1: y, y2: y });
      shape(marks, "text", { x: box.right - 4, y: y - 5, "text-anchor": "end" }, name);
    }
  }

  function drawChart(view, data, svg) {
    svg.setAttribute("viewBox", `0 0 ${view.width} ${view.height}`);
    svg.replaceChildren();
    const { box } = view;
    drawAxes(view, data, shape(svg, "g", { class: "axes" }));
    /* An inner picture cuts off what a zoom leaves out. */
    const [x, y] = [box.left - 4, box.top - 5];
    const [width, height] = [box.right - box.left + 8, box.bottom - box.top + 6];
    const viewBox = `${x} ${y} ${width} ${height}`;
    const lines = shape(svg, "svg", { x, y, width, height, viewBox });
    if (view.stack) drawStack(view, data, lines);
    /* In reverse order, so that the first line of the legend is on top. */
    for (const one of view.stack ? [] : view.series.slice().reverse()) {
      drawLine(view, shape(lines, "g", { class: one.color }), one);
    }
    drawMarks(view, data, shape(svg, "g", { class: "marks" }));
    shape(svg, "g", { class: "pointer" });
  }
)js";
}

}  // namespace reprise::report
