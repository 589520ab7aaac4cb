// The page's style. Series have the colours of Okabe and Ito, which can be told apart with any
// colour vision; dark mode uses lighter versions of the same hues. Figures use digits of equal
// width.
#include "report/page/assets.h"

namespace reprise::report {

std::string_view page_style() {
  return R"css(
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #14181f; --soft: #5b6472; --edge: #e2e5ea;
  --grid: #eceef2; --axis: #b9c0ca; --warn: #9a5b00; --warn-page: #fff6e5; --warn-edge: #f3d9a6;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7; --c4: #e69f00; --c5: #56b4e9;
  --c6: #9aa1ac;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0f1216; --card: #171b21; --ink: #e9edf2; --soft: #98a2b0; --edge: #272d36;
    --grid: #232932; --axis: #48515e; --warn: #f2b84b; --warn-page: #241c0d; --warn-edge: #4d3a14;
    --c0: #4aa3dc; --c1: #f5894a; --c2: #35c097; --c3: #e29cc5; --c4: #f0b540; --c5: #8dcdf3;
    --c6: #77808d;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums; -webkit-font-smoothing: antialiased;
}
main { max-width: 1200px; margin: 0 auto; padding: 40px 24px 64px; }
h1 { font-size: 30px; line-height: 1.2; letter-spacing: -0.02em; margin: 2px 0 18px;
  overflow-wrap: anywhere; }
h2 { font-size: 19px; letter-spacing: -0.01em; margin: 40px 0 14px; }
h3 { font-size: 15px; font-weight: 600; margin: 0; }
h4 { font-size: 13px; font-weight: 600; color: var(--soft); margin: 0 0 8px; }
.lead { margin: 0 0 24px; font-size: 18px; line-height: 1.45; max-width: 62em; }
.eyebrow { margin: 0; font-size: 12px; font-weight: 600; letter-spacing: 0.08em;
  text-transform: uppercase; color: var(--c0); }
.facts { display: flex; flex-wrap: wrap; gap: 10px 36px; margin: 0 0 26px; }
.facts dt { font-size: 12px; color: var(--soft); }
.facts .command { flex-basis: 100%; }
.facts .command dd { font-size: 12.5px;
  font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.facts dd { margin: 0; font-weight: 500; overflow-wrap: anywhere; }
.card, .tile, .chart { background: var(--card); border: 1px solid var(--edge);
  border-radius: 10px; }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; }
.tile { flex: 1 1 150px; padding: 14px 16px; display: flex; flex-direction: column; gap: 2px; }
.tiles.many .tile { flex-basis: 250px; }
.tile .label { font-size: 12.5px; color: var(--soft); }
.tile strong { font-size: 23px; line-height: 1.25; font-weight: 650; letter-spacing: -0.02em;
  white-space: nowrap; }
.tile small { font-size: 12px; color: var(--soft); }
.warnings { background: var(--warn-page); border: 1px solid var(--warn-edge); border-radius: 10px;
  padding: 14px 18px; margin: 0 0 20px; }
.warnings h2 { margin: 0 0 4px; font-size: 14px; color: var(--warn); }
.warnings ul { margin: 0; padding-left: 18px; overflow-wrap: anywhere; }
.charts { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 14px; }
.chart { margin: 0; padding: 16px 16px 8px; min-width: 0; display: flex; flex-direction: column; }
.chart.full { grid-column: 1 / -1; }
.note { margin: 1px 0 0; font-size: 12.5px; color: var(--soft); }
.legend { display: flex; flex-wrap: wrap; gap: 2px 14px; margin: 6px 0 8px; font-size: 12.5px; }
.key { display: inline-flex; align-items: center; gap: 6px; padding: 2px 0; border: 0;
  background: none; color: inherit; font: inherit; }
button.key { cursor: pointer; }
button.key[aria-pressed="false"] { opacity: 0.4; text-decoration: line-through; }
.key span { color: var(--soft); }
.key b { font-weight: 600; }
.key i { width: 14px; height: 3px; border-radius: 2px; background: var(--c); }
.key i.dashed { background: repeating-linear-gradient(90deg, var(--c) 0 5px, transparent 5px 8px); }
div.key i { width: 10px; height: 10px; border-radius: 3px; }
.plot { overflow-x: auto; margin-top: auto; }
.plot > svg { display: block; width: 100%; height: auto; min-width: 440px; touch-action: pan-y; }
.full .plot > svg { min-width: 720px; }
.js .plot { overflow: hidden; }
.js .chart .plot > svg { min-width: 0; cursor: crosshair; user-select: none; }
.chart figcaption { position: relative; }
.tools { position: absolute; right: 0; top: 0; display: flex; gap: 6px; }
.tools button, .controls button { border: 1px solid var(--edge); border-radius: 6px;
  padding: 1px 8px; background: none; color: var(--soft); font: inherit; font-size: 12px;
  cursor: pointer; }
.tools button[aria-pressed="true"], .controls button[aria-pressed="true"] { color: var(--card);
  background: var(--c0); border-color: var(--c0); }
.controls { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 18px; margin: 0 0 16px;
  font-size: 12.5px; color: var(--soft); }
.controls label { display: inline-flex; align-items: center; gap: 8px; }
.controls input { width: 130px; accent-color: var(--c0); }
svg text { font-size: 11.5px; fill: var(--soft); }
.grid { stroke: var(--grid); } .base, .tick { stroke: var(--axis); }
.s0 { --c: var(--c0); } .s1 { --c: var(--c1); } .s2 { --c: var(--c2); } .s3 { --c: var(--c3); }
.s4 { --c: var(--c4); } .s5 { --c: var(--c5); } .s6 { --c: var(--c6); }
.line { fill: none; stroke: var(--c); stroke-width: 1.8; stroke-linejoin: round;
  stroke-linecap: round; }
.dashed { stroke-dasharray: 5 4; }
.faint { stroke-width: 1; opacity: 0.3; }
.dot { fill: var(--card); stroke: var(--c); stroke-width: 1.8; }
.area { fill: var(--c); fill-opacity: 0.82; stroke: var(--card); stroke-width: 1; }
.broken { fill: var(--warn); }
.limit { stroke: var(--ink); stroke-width: 1.4; stroke-dasharray: 6 4; }
.section { stroke: var(--axis); }
.marks text { fill: var(--ink); paint-order: stroke; stroke: var(--card); stroke-width: 4px;
  stroke-linejoin: round; }
.pointer line { stroke: var(--axis); stroke-dasharray: 3 3; }
.pointer rect { fill: var(--c0); opacity: 0.15; }
.pointer circle { fill: var(--c); stroke: var(--card); stroke-width: 1.5; }
#tip { position: fixed; z-index: 2; pointer-events: none; visibility: hidden; left: 0; top: 0;
  background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 8px 11px;
  font-size: 12.5px; box-shadow: 0 6px 24px rgb(0 0 0 / 0.16); max-width: 420px; }
#tip p { margin: 0 0 3px; color: var(--soft); }
#tip div { display: flex; align-items: center; gap: 8px; }
#tip i { width: 9px; height: 9px; border-radius: 3px; background: var(--c); flex: none; }
#tip b { margin-left: auto; padding-left: 18px; font-weight: 600; white-space: nowrap; }
.effect { padding: 16px 18px; margin-bottom: 12px; }
.effect h3 { margin-bottom: 10px; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(300px, 1fr));
  gap: 20px 36px; }
.bar { display: grid; grid-template-columns: 130px 1fr 84px; align-items: center; gap: 10px;
  font-size: 13px; margin: 5px 0; }
.bar .label { color: var(--soft); }
.bar b { text-align: right; font-weight: 600; white-space: nowrap; }
.track { height: 14px; border-radius: 4px; background: var(--grid); overflow: hidden; }
.fill { display: block; height: 100%; background: var(--c); }
.blocks { display: flex; flex-wrap: wrap; gap: 4px; }
.blocks i { width: 15px; height: 15px; border-radius: 4px; background: var(--grid);
  border: 1px solid var(--axis); }
.blocks i.on { background: var(--c0); border-color: var(--c0); }
.table { overflow-x: auto; padding: 4px 18px; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th, td { padding: 7px 24px 7px 0; text-align: left; vertical-align: top; font-weight: 400;
  border-bottom: 1px solid var(--grid); overflow-wrap: anywhere; }
th:last-child, td:last-child { padding-right: 0; }
tbody tr:last-child > * { border-bottom: 0; }
thead th { font-size: 12px; font-weight: 600; color: var(--soft); }
tbody th { font-weight: 500; min-width: 110px; }
th.name { font-size: 12.5px; color: var(--soft); width: 34%;
  font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.plan .note { margin: 0 0 10px; }
.plan tr.whole > * { font-weight: 600; padding-top: 14px; }
.plan tr.whole > :last-child { font-weight: 400; }
.plan td.name { font-size: 12.5px; color: var(--soft); padding-left: 16px;
  font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.plan .choice { white-space: nowrap; }
.plan .choice i { display: inline-block; width: 9px; height: 9px; border-radius: 3px;
  margin-right: 7px; background: var(--c); }
section > h3 { margin: 18px 0 8px; }
.samples table { table-layout: fixed; min-width: 720px; }
.samples thead th { width: 30%; }
.samples thead th:nth-child(2) { width: auto; }
.samples thead th:last-child { width: 220px; }
.samples tbody th { font-weight: 600; padding-top: 14px; }
.samples tbody tr:last-child > * { border-bottom: 1px solid var(--grid); }
.samples tbody:last-child tr:last-child > * { border-bottom: 0; }
.said { white-space: pre-wrap; max-height: 17em; overflow-y: auto; font-size: 12.5px;
  font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.samples dl { display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: 1px 14px;
  margin: 0; font-size: 12.5px; }
.samples dt { color: var(--soft); }
.samples dd { margin: 0; text-align: right; }
.samples dl :nth-child(-n + 2) { font-weight: 600; color: var(--ink); }
details { margin-top: 12px; }
summary { cursor: pointer; padding: 6px 2px; color: var(--soft); }
.number { text-align: right; white-space: nowrap; }
@media (max-width: 860px) {
  main { padding: 24px 14px 40px; }
  .charts { grid-template-columns: minmax(0, 1fr); }
}
@media (max-width: 520px) {
  h1 { font-size: 24px; }
  .facts { gap: 8px 22px; }
  .tile, .tiles.many .tile { flex-basis: 36%; min-width: 0; }
  .tile strong { font-size: 19px; white-space: normal; }
  .columns { grid-template-columns: minmax(0, 1fr); }
  .bar { grid-template-columns: 96px 1fr 76px; }
  .chart { padding: 12px 12px 6px; }
  .table { padding: 4px 12px; }
  th, td { padding-right: 12px; }
  tbody th { min-width: 90px; }
  .controls span { display: none; }
}
@media print {
  body { background: none; }
  .chart, .tile, .card { break-inside: avoid; }
  .samples { break-inside: auto; }
  .said { max-height: none; }
}
)css";
}

}  // namespace reprise::report
