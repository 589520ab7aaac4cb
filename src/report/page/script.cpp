// What the script of the charts uses: units, axes with round ticks as in axis.cpp, shapes, and the
// tooltip. Text is always set as text, never as markup.
#include "report/page/assets.h"

namespace reprise::report {

std::string_view page_script() {
  return R"js(
  document.documentElement.classList.add("js");
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
    if (value < 1000) return Number(value.toPrecision(3)) + " ms";
    return value < 60000 ? (value / 1000).toFixed(2) + " s" : (value / 60000).toFixed(1) + " min";
  }

  function seconds(value) {
    if (value < 120) return Number(value.toPrecision(3)) + " s";
    return value < 7200 ? (value / 60).toFixed(1) + " min" : (value / 3600).toFixed(1) + " h";
  }

  const formats = {
    number: (value) => String(Number.isInteger(value) ? value : Number(value.toPrecision(6))),
    bytes: (value) => scaled(value, [" B", " KiB", " MiB", " GiB", " TiB", " PiB"], 1024),
    ms: milliseconds,
    seconds: seconds,
    rate: (value) => scaled(value, ["", "k", "M", "G", "T"], 1000) + " tokens/s",
    share: (value) => Number((100 * value).toFixed(1)) + " %",
  };

  function roundStep(range, unit) {
    const rough = range / 5;
    if (unit === "bytes") return 2 ** Math.ceil(Math.log2(Math.max(rough, 1)));
    const power = 10 ** Math.floor(Math.log10(rough));
    const digit = rough / power;
    return power * (digit <= 1.5 ? 1 : digit <= 3 ? 2 : digit <= 7 ? 5 : 10);
  }

  /* Labels of ticks: short, and for numbers with the same decimals. */
  function label(value, step, unit) {
    if (unit === "rate") return scaled(value, ["", "k", "M", "G", "T"], 1000);
    if (unit !== "number") return formats[unit](value);
    if (Math.abs(value) < step / 2) return "0";
    if (Math.abs(value) >= 1e6 || step < 5e-4) {
      return value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
    }
    return value.toFixed(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  }

  function linearAxis(low, high, unit, isExact) {
    if (!(high > low)) {
      const more = Math.abs(low) * 0.05 || 1;
      high += more;
      low -= isExact || low === 0 ? 0 : more;
    }
    const step = roundStep(high - low, unit);
    const axis = { low: low, high: high, log: false, ticks: [] };
    if (!isExact) {
      axis.low = Math.floor(low / step + 1e-9) * step;
      axis.high = Math.ceil(high / step - 1e-9) * step;
    }
    const first = Math.ceil(axis.low / step - 1e-9);
    for (let i = first; i * step <= axis.high + step * 1e-6 && i < first + 40; i += 1) {
      axis.ticks.push([i * step, label(i * step, step, unit)]);
    }
    return axis;
  }

  /* Ticks at 1, 2 and 5 times powers of ten; the powers alone if there are many of them. */
  function logAxis(low, high, unit) {
    const axis = { low: low / 1.05, high: high * 1.05, log: true, ticks: [] };
    const first = Math.floor(Math.log10(axis.low)), last = Math.ceil(Math.log10(axis.high));
    const digits = last - first <= 2 ? [1, 2, 5] : [1];
    const every = 1 + Math.floor((last - first) / 8);
    for (let power = first; power <= last; power += every) {
      for (const digit of digits) {
        const tick = digit * 10 ** power;
        if (tick >= axis.low && tick <= axis.high) {
          axis.ticks.push([tick, unit === "number" ? String(Number(tick.toPrecision(3)))
                                                   : label(tick, tick, unit)]);
        }
      }
    }
    if (axis.ticks.length < 2) {  /* less than one power of ten */
      axis.ticks = linearAxis(low, high, unit, true).ticks.filter((tick) => tick[0] > 0);
    }
    return axis;
  }

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

  /* A moving average with weights that halve with age, without a bias at the start. */
  function smoothed(values, weight) {
    let sum = 0, total = 0;
    return values.map((value) => {
      sum = sum * weight + value;
      total = total * weight + 1;
      return sum / total;
    });
  }

  function child(parent, name, text) {
    const node = parent.appendChild(document.createElement(name));
    if (text !== undefined) node.textContent = text;
    return node;
  }

  function shape(parent, name, attributes, text) {
    const node = document.createElementNS(parent.namespaceURI, name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    if (text !== undefined) node.textContent = text;
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
)js";
}

}  // namespace reprise::report
