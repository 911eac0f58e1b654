/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the page of the evidence. All text goes through shown() into textContent: a log is never markup. */
"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const drawn = JSON.parse(document.getElementById("charts").textContent);
  const verdict = data.verdict || {};
  const facts = data.facts || [];

  /* Characters that hide, change direction or control (utf8_is_hidden()) are shown as their number. */
  function shown(text) {
    return String(text).replace(
      /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]/g,
      c => "\u27e8U+" + c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0") + "\u27e9");
  }

  /* element("p", {class: "faint"}, "text", otherElement) */
  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {}))
      made.setAttribute(key, value);
    for (const child of children.flat(Infinity))
      made.append(child instanceof Node ? child : document.createTextNode(shown(child)));
    return made;
  }

  function bytes(n) {
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let at = 0;
    while (Math.abs(n) >= 1024 && at < units.length - 1) {
      n /= 1024;
      at++;
    }
    const digits = Number.isInteger(n) ? 0 : at < 3 ? 1 : 2;
    return n.toFixed(digits) + " " + units[at];
  }

  function seconds(s) {
    if (s < 120) return s.toFixed(s < 10 ? 2 : 1) + " s";
    return s < 7200 ? (s / 60).toFixed(1) + " min" : (s / 3600).toFixed(1) + " h";
  }

  function value(fact) {
    if (fact.status !== undefined) return fact.status + (fact.reason ? ": " + fact.reason : "");
    if (typeof fact.value === "boolean") return fact.value ? "yes" : "no";
    if (typeof fact.value !== "number") return fact.value;
    if (fact.name.endsWith("_bytes")) return bytes(fact.value);
    if (fact.name.endsWith("_ms")) return seconds(fact.value / 1000);
    return fact.name.endsWith("_percent") ? fact.value.toFixed(1) + " %" : String(fact.value);
  }

  const list = (items, name) => element(name || "ul", {}, items.map(item => element("li", {}, item)));

  function table(heads, rows) {
    const head = heads.map(([text, kind]) => element("th", {scope: "col", class: kind || ""}, text));
    const body = rows.map(row => element("tr", {}, row.map((cell, i) =>
      element("td", {class: heads[i][1] || ""}, cell))));
    return element("div", {class: "scroll", tabindex: "0"},
      element("table", {}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, body)));
  }

  function folded(title, ...children) {
    return element("details", {}, element("summary", {}, title), ...children);
  }

  const sections = [];
  function section(id, title, ...children) {
    const made = children.flat(Infinity).filter(child => child);
    if (made.length > 0)
      sections.push({id, title, node: element("section", {id, "aria-label": title}, element("h2", {}, title), made)});
  }

  /* --- the account --- */

  /* The colours of the charts; the parts of what the program holds differ by shade. */
  const kinds = {others_bytes: 0, remainder_bytes: 1, idle_whole_bytes: 4, idle_split_bytes: 4, idle_bytes: 4,
    growth_bytes: 5, step_bytes: 6, context_bytes: 2, outside_bytes: 2};
  const partClass = part => part.name === "free_bytes" ? "free" : "part" + (kinds[part.name] ?? 3);

  function swatch(part) {
    return element("span", {class: "swatch " + partClass(part), "aria-hidden": "true"});
  }

  /* The places where a figure was read. "computed from oom.free_bytes (stderr line 19), f.idle_bytes" was read in that line, and
     where f.idle_bytes was. */
  function placesOf(source, depth) {
    if (!source.startsWith("computed from ")) return [source];
    const inputs = source.slice("computed from ".length).match(/[^\s,()]+( \((?:[^()]|\([^()]*\))*\))?/g) || [];
    return inputs.flatMap(input => input.includes(" (") ? [input.slice(input.indexOf(" (") + 2, -1)] :
      depth > 0 && byName.has(input) ? placesOf(byName.get(input).source || "", depth - 1) : []);
  }

  function place(part) {
    if (part.name === "remainder_bytes") return "the total without the rows above";
    const places = placesOf(part.source || "", 4).filter(word => word && word !== "no source");
    return [...new Set(places)].join("; ") || "computed";
  }

  function account() {
    const parts = ((verdict.account || {}).parts || []).filter(part => part.bytes > 0);
    const total = parts.reduce((sum, part) => sum + part.bytes, 0);
    if (total === 0) return [];
    const bar = element("div", {class: "bar", role: "img", "aria-label": parts.map(part =>
      part.label + " " + (100 * part.bytes / total).toFixed(1) + " %").join(", ")});
    parts.forEach(part => {
      const piece = element("span", {class: partClass(part), title: shown(part.label) + ", " + bytes(part.bytes)});
      piece.style.flexGrow = String(part.bytes / total * 1000);
      bar.append(piece);
    });
    return [bar, table([["part"], ["bytes", "number"], ["share", "number"], ["source", "source"]],
      parts.map(part => [[swatch(part), part.label], bytes(part.bytes),
        (100 * part.bytes / total).toFixed(1) + " %", place(part)]))];
  }

  /* --- charts --- */

  const reader = getComputedStyle(document.documentElement);
  const colour = name => reader.getPropertyValue("--" + name).trim();

  /* uPlot draws lines: part k is the sum of the parts up to k, drawn from the top down. */
  function stacked(chart) {
    const sums = [];
    chart.parts.forEach((part, k) => sums.push(part.mib.map((v, i) =>
      v === null ? (k > 0 ? sums[k - 1][i] : null) : (k > 0 ? sums[k - 1][i] || 0 : 0) + v)));
    return sums;
  }

  function marks(plot) {
    const ctx = plot.ctx;
    ctx.save();
    ctx.font = 12 * devicePixelRatio + "px sans-serif";
    const top = plot.bbox.top, bottom = top + plot.bbox.height;
    const limit = plot.limitMib === null ? NaN : plot.valToPos(plot.limitMib, "y", true);
    if (limit >= top) {
      ctx.strokeStyle = colour("bad");
      ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(plot.bbox.left, limit);
      ctx.lineTo(plot.bbox.left + plot.bbox.width, limit);
      ctx.stroke();
    }
    ctx.setLineDash([]);
    ctx.strokeStyle = ctx.fillStyle = colour("text");
    const shownMarks = drawn.marks.map((mark, i) => ({label: mark.label, row: i, x: plot.valToPos(mark.time_s, "x", true)}))
      .filter(({x}) => x >= plot.bbox.left && x <= plot.bbox.left + plot.bbox.width);
    shownMarks.forEach(({x}) => {
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, bottom);
      ctx.stroke();
    });
    /* Draw the labels after all lines: otherwise the next mark's line would cross a wide label. */
    ctx.strokeStyle = colour("ground");
    ctx.lineWidth = 4 * devicePixelRatio;
    ctx.lineJoin = "round";
    shownMarks.forEach(({label, row, x}) => {
      const right = x > plot.bbox.left + plot.bbox.width / 2;
      const at = [label, x + (right ? -5 : 5) * devicePixelRatio, top + (14 + 15 * row) * devicePixelRatio];
      ctx.textAlign = right ? "right" : "left";
      ctx.strokeText(...at);
      ctx.fillText(...at);
    });
    ctx.restore();
  }

  function legendOf(chart) {
    const outputs = chart.parts.map(() => element("output", {}));
    const time = element("output", {});
    const node = element("ul", {class: "legend"}, chart.parts.map((part, k) =>
      element("li", {class: "part" + part.kind}, part.label, outputs[k])), element("li", {class: "when"}, time));
    return {node, show(i) {
      const known = i !== null && i !== undefined;
      chart.parts.forEach((part, k) => {
        const v = known ? part.mib[i] : null;
        outputs[k].textContent = v === null ? "" : bytes(v * 1048576);
      });
      time.textContent = known ? "at " + seconds(drawn.time_s[i]) : "";
    }};
  }

  const steps = Array.from({length: 40}, (_, i) => 2 ** (i - 4)); /* in MiB; powers of two are round in GiB, too */

  function plotted(chart, holder, legend) {
    const sums = stacked(chart);
    const order = sums.map((_, k) => k).reverse();
    const top = Math.max(chart.limit_mib || 0, ...sums[sums.length - 1].map(v => v || 0)) * 1.02;
    const plot = new uPlot({
      width: Math.max(holder.clientWidth, 280), height: 240, legend: {show: false},
      cursor: {drag: {x: true, y: false}},
      scales: {x: {time: false}, y: {range: [0, top]}},
      axes: [{stroke: colour("faint"), grid: {stroke: colour("line")}, values: (_, ticks) => ticks.map(seconds)},
        {stroke: colour("faint"), grid: {stroke: colour("line")}, size: 84, incrs: steps,
          values: (_, ticks) => ticks.map(v => bytes(v * 1048576))}],
      series: [{}].concat(order.map(k => ({stroke: colour("part" + chart.parts[k].kind),
        fill: colour("part" + chart.parts[k].kind), width: 1,
        points: {show: false}, spanGaps: false}))),
      hooks: {draw: [marks], setCursor: [p => legend.show(p.cursor.idx)],
        init: [p => { p.limitMib = chart.limit_mib; }]},
    }, [drawn.time_s].concat(order.map(k => sums[k])), holder);
    new ResizeObserver(() => plot.setSize({width: Math.max(holder.clientWidth, 280), height: 240})).observe(holder);
  }

  /* A table for readers who cannot see the drawing, with at most twenty rows. */
  function chartTable(chart) {
    const step = Math.max(1, Math.ceil(drawn.time_s.length / 20));
    const rows = [];
    for (let i = 0; i < drawn.time_s.length; i += step)
      rows.push([seconds(drawn.time_s[i])].concat(chart.parts.map(part =>
        part.mib[i] === null ? "not known" : bytes(part.mib[i] * 1048576))));
    return folded("as a table", table([["time", "number"]].concat(chart.parts.map(part => [part.label, "number"])), rows));
  }

  const waiting = [];

  function fullness(chart) {
    return chart.limit_mib > 0 ? Math.max(...stacked(chart).pop().map(v => v || 0)) / chart.limit_mib : 0.5;
  }

  /* The chart that came closest to its limit comes first. Charts that never reached a quarter of theirs are folded. */
  function charts() {
    const nodes = allCharts();
    const all = drawn.charts.map((chart, i) => ({title: chart.title, full: fullness(chart), node: nodes[i]}));
    all.sort((a, b) => Math.round(10 * b.full) - Math.round(10 * a.full)); /* stable */
    const quiet = all.filter((chart, i) => i > 0 && chart.full < 0.25);
    return all.filter(chart => !quiet.includes(chart)).map(chart => chart.node)
      .concat(quiet.length > 0 ? folded("Far from their limit: " + quiet.map(chart => chart.title).join(", "),
        quiet.map(chart => chart.node)) : []);
  }

  function allCharts() {
    const figures = Array.from(document.querySelectorAll("#static figure"));
    return drawn.charts.map((chart, i) => {
      const title = chart.title + (chart.limit_mib ? ", of " + bytes(chart.limit_mib * 1048576) : "");
      if (typeof uPlot !== "function")
        return element("div", {}, figures[i] || [], chartTable(chart));
      const holder = element("div", {class: "plot", role: "img", "aria-label": chart.title + " over the run"});
      const legend = legendOf(chart);
      legend.show(null);
      waiting.push(() => plotted(chart, holder, legend));
      return element("figure", {}, element("figcaption", {}, title), holder, legend.node, chartTable(chart));
    });
  }

  /* --- the allocator --- */

  function segmentMap() {
    const segments = ((data.snapshot || {}).segments || []).slice().sort((a, b) => b.total_size - a.total_size);
    if (segments.length === 0) return [];
    const most = segments[0].total_size;
    const rows = segments.slice(0, 60).map(segment => {
      const row = element("div", {class: "map", role: "img", "aria-label": bytes(segment.total_size) + " segment, " +
        bytes(segment.active_size || segment.allocated_size || 0) + " in use"});
      row.style.width = Math.max(2, 100 * segment.total_size / most) + "%";
      (segment.blocks || []).forEach(block => {
        const used = String(block.state).startsWith("active_alloc");
        const piece = element("span", {class: used ? "used" : block.state === "inactive" ? "idle" : "waiting",
          title: bytes(block.size) + ", " + shown(block.state)});
        piece.style.flexGrow = String(block.size);
        row.append(piece);
      });
      return row;
    });
    return [element("h3", {}, "Segments of PyTorch's allocator, the largest first"),
      element("p", {class: "faint"}, "Coloured: in use. Blank: idle. " + (segments.length > 60 ?
        "60 of " + segments.length + " are drawn." : segments.length + " segments.")), rows];
  }

  /* The ages, at the failure, of those live buffers that the ledger lists one by one. */
  function ageOf(size) {
    if (typeof size.newest_s !== "number") return "";
    const newest = seconds(size.newest_s), oldest = seconds(size.oldest_s);
    return newest === oldest ? newest : newest + " to " + oldest;
  }

  function sizes() {
    const rows = ((data.ledger || {}).sizes || []).map(size => ({size, live: size.allocations - size.frees}))
      .filter(row => row.live > 0).sort((a, b) => b.live * b.size.bytes - a.live * a.size.bytes).slice(0, 16);
    if (rows.length === 0) return [];
    return [element("h3", {}, "Driver allocations of this program that are live, by size"),
      table([["size", "number"], ["live", "number"], ["allocated", "number"], ["freed", "number"], ["together", "number"],
        ["age at the failure", "number"], ["kind"]],
        rows.map(({size, live}) => [bytes(size.bytes), String(live), String(size.allocations), String(size.frees),
          bytes(live * size.bytes), ageOf(size), size.kind]))];
  }

  /* --- why --- */

  function path() {
    const steps = verdict.path || [];
    const entry = step => element("li", {}, step.question + " ", element("b", {class: step.answer.replace(" ", "-")}, step.answer),
      step.numbers ? element("div", {class: "faint"}, step.numbers) : "");
    const notable = steps.filter(step => step.answer !== "no" && step.answer !== "not asked");
    return steps.length === 0 ? [] : [element("h3", {}, "The way through the decision tree"),
      element("ol", {class: "path"}, notable.map(entry)),
      folded("all " + steps.length + " questions", element("ol", {class: "path"}, steps.map(entry)))];
  }

  function named(title, items) {
    return items && items.length > 0 ? [element("h3", {}, title), list(items)] : [];
  }

  /* --- facts --- */

  function factTable() {
    const rows = facts.map(fact => ({
      node: element("tr", {}, element("td", {}, element("code", {}, fact.name)), element("td", {}, value(fact)),
        element("td", {}, fact.when || ""), element("td", {class: "source"}, fact.source || "")),
      text: (fact.name + " " + fact.value).toLowerCase(), missing: fact.status !== undefined}));
    const body = element("tbody", {}, rows.map(row => row.node));
    const count = element("p", {class: "faint", role: "status"});
    const search = element("input", {type: "search", "aria-label": "Filter the facts", placeholder: "Filter: vram, env., kernel \u2026"});
    function filter() {
      const words = search.value.toLowerCase().split(/\s+/).filter(word => word);
      let n = 0;
      for (const row of rows) {
        row.node.hidden = words.length === 0 ? row.missing : !words.every(word => row.text.includes(word));
        n += row.node.hidden ? 0 : 1;
      }
      count.textContent = n + " of " + rows.length + " facts" + (words.length === 0 ? "; what is not known is shown when it is looked for" : "");
    }
    search.addEventListener("input", filter);
    filter();
    return facts.length === 0 ? [] : [search, count, element("div", {class: "scroll", tabindex: "0"}, element("table", {},
      element("thead", {}, element("tr", {}, ["fact", "value", "when"].map(head => element("th", {scope: "col"}, head)),
        element("th", {scope: "col", class: "source"}, "source"))), body))];
  }

  const byName = new Map();
  facts.forEach(fact => { if (fact.status === undefined && !byName.has(fact.name)) byName.set(fact.name, fact); });
  function prefixed(prefix) {
    return Array.from(byName.values()).filter(fact => fact.name.startsWith(prefix))
      .map(fact => [element("code", {}, fact.name.slice(prefix.length)), value(fact)]);
  }
  function factRows(title, prefix) {
    const rows = prefixed(prefix);
    return rows.length === 0 ? [] : folded(title + " (" + rows.length + ")", table([["name"], ["value"]], rows));
  }

  /* --- the page --- */

  function pre(text) { return text ? element("pre", {tabindex: "0"}, text) : null; }

  section("said", "What the program said", pre(data.program_said), data.frames && element("h3", {}, "Where it was, innermost first"),
    pre(data.frames));
  section("memory", "Who held the memory", account(), charts());
  section("try", "What to try", (verdict.advice || []).length > 0 && list(verdict.advice, "ol"),
    verdict.file_at && element("p", {}, "File at: " + verdict.file_at));
  section("why", "Why this verdict", named("What decides it", verdict.why), named("What speaks against it", verdict.against),
    verdict.runner_up && element("p", {}, "Next likely: ", element("b", {}, verdict.runner_up),
      verdict.decides ? ". What would decide: " + verdict.decides + "." : "."),
    named("Also seen", verdict.also), path());
  section("allocations", "Allocations", sizes(), segmentMap());
  section("kernel", "Kernel log", pre(data.kernel_log));
  section("stacks", "Stacks of the process that failed", pre(data.stacks));
  section("machine", "Machine, versions, environment", list((data.machine || "").split("\n").filter(line => line.startsWith("- ")).map(line => line.slice(2))),
    factRows("Versions", "software."), factRows("Environment", "env."), factRows("GPUs", "gpu."), factRows("Host", "host."));
  section("output", "Output of the program", data.output && folded("stderr, as far as it was kept", pre(data.output)));
  section("facts", "All facts", factTable());
  section("files", "The bundle", element("p", {}, element("code", {}, data.bundle || "")),
    folded("files (" + (data.files || []).length + ")", list((data.files || []).map(name => element("code", {}, name)))),
    verdict.signature && element("p", {}, "Signature, to search for duplicates: ", element("code", {}, verdict.signature.id)),
    element("p", {class: "faint"}, "Made by rocmcrash " + (data.tool_version || "") +
      ". Nothing on this page comes from the network."));

  const page = document.getElementById("page");
  const job = name => (byName.get("job." + name) || {}).value;
  const rank = job("rank") === undefined ? "" : job("rank") + (job("world_size") ? " of " + job("world_size") : "");
  const chips = [["class", verdict.class], ["confidence", verdict.confidence], ["also likely", verdict.runner_up], ["rank", rank]]
    .filter(([, text]) => text).map(([label, text]) => element("li", {}, label + " ", element("b", {}, text)));
  const heading = page.querySelector("h1");
  heading.after(element("ul", {class: "chips"}, chips), element("p", {}, verdict.sentence || ""),
    element("nav", {"aria-label": "Sections"}, sections.map(s => element("a", {href: "#" + s.id}, s.title))));
  sections.forEach(s => page.append(s.node));
  document.getElementById("static").remove();
  waiting.forEach(draw => draw());
}());
