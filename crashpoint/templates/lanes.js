"use strict";
(() => {
  const NAMES = 150, AXIS = 34, FAULT = 18, NODE = 30, GAP = 6, FEWEST_NS = 1000;
  const KEYS = { "+": chart => chart.zoom(0.5), "=": chart => chart.zoom(0.5), "-": chart => chart.zoom(2),
    "0": chart => chart.whole(), ArrowLeft: chart => chart.move(-0.2), ArrowRight: chart => chart.move(0.2) };

  // What is in the data is text from the system under test: it only ever becomes text.
  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }
  function seconds(ns, digits) {
    return (ns / 1e9).toFixed(digits) + " s";
  }
  function colours() {
    const style = getComputedStyle(document.documentElement);
    const names = ["paper", "card", "ink", "faint", "line", "bad", "bad-fill", "open", "open-fill", "write", "write-edge",
      "fua", "fua-edge", "operation", "operation-edge", "accent"];
    return Object.fromEntries(names.map(name => [name, style.getPropertyValue("--" + name).trim()]));
  }

  class Chart {
    constructor(place, run) {
      this.run = run;
      this.canvas = element("canvas", { role: "img", tabindex: "0",
        "aria-label": `A lane for each of ${run.nodes.length} nodes and ${run.clients.length} clients, from left to right` });
      this.what = element("p", { class: "what", "aria-live": "polite" });
      const button = (label, words, act) => {
        const made = element("button", { type: "button", "aria-label": words, title: words }, label);
        made.addEventListener("click", () => act(this));
        return made;
      };
      const tools = element("div", { class: "tools" },
        button("+", "closer", KEYS["+"]), button("\u2212", "farther", KEYS["-"]), button("\u2190", "earlier", KEYS.ArrowLeft),
        button("\u2192", "later", KEYS.ArrowRight), button("whole run", "the whole run", KEYS["0"]));
      place.append(tools, this.canvas, this.what, this.violations());
      this.broken = new Set(run.violations.flatMap(one => one.operations.map(of => of.join(" "))));
      this.roles = [...new Set(run.nodes.flatMap(node => node.roles.map(bar => bar.role)))];
      this.lay();
      this.listen();
      this.whole();
    }

    violations() {
      const list = element("ul", { class: "violations" });
      for (const one of this.run.violations) {
        const made = element("button", { type: "button" }, one.words);
        made.addEventListener("click", () => this.look(one));
        list.append(element("li", {}, made));
      }
      return list;
    }

    // Where each lane is.
    lay() {
      let y = AXIS;
      const lane = (kind, name, height, of) => {
        const made = { kind, name, y, height, of };
        y += height + GAP;
        return made;
      };
      this.faults = this.run.faults.map(fault => lane("fault", `fault ${fault.number}`, FAULT, fault));
      this.nodes = this.run.nodes.map(node => lane("node", node.name, NODE, node));
      this.clients = this.run.clients.map(client => {
        const row = Math.max(5, Math.min(16, Math.floor(96 / client.rows)));
        return { ...lane("client", `client ${client.name}`, Math.max(row * client.rows, 16), client), row };
      });
      this.height = y;
    }

    listen() {
      const canvas = this.canvas;
      canvas.addEventListener("keydown", event => {
        if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
        event.preventDefault();
        KEYS[event.key](this);
      });
      canvas.addEventListener("wheel", event => {
        if (!event.ctrlKey && !event.shiftKey) return;
        event.preventDefault();
        this.zoom((event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8, this.time(event.offsetX));
      }, { passive: false });
      let held = null;
      canvas.addEventListener("pointerdown", event => {
        held = { x: event.offsetX, start: this.start, span: this.span };
        canvas.setPointerCapture(event.pointerId);
      });
      canvas.addEventListener("pointerup", () => { held = null; });
      canvas.addEventListener("pointercancel", () => { held = null; });
      canvas.addEventListener("pointermove", event => {
        if (held) this.show(held.start - (event.offsetX - held.x) / this.width * held.span, held.span);
        else this.tell(event.offsetX, event.offsetY);
      });
      new ResizeObserver(() => this.draw()).observe(canvas);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    }

    whole() {
      this.show(0, this.run.end_ns * 1.02);
    }
    zoom(factor, around = this.start + this.span / 2) {
      const span = Math.max(FEWEST_NS, this.span * factor);
      this.show(around - (around - this.start) * span / this.span, span);
    }
    move(part) {
      this.show(this.start + part * this.span, this.span);
    }
    look(violation) {
      const bars = violation.operations.map(([client, place]) => this.run.clients[client].operations[place]);
      const start = Math.min(...bars.map(bar => bar.start_ns)), end = Math.max(...bars.map(bar => bar.end_ns ?? bar.start_ns));
      if (bars.length === 0) return;
      const span = Math.max((end - start) * 1.5, this.run.end_ns / 500);
      this.show((start + end - span) / 2, span);
      this.what.textContent = bars.map(bar => this.inWords(bar)).join("; ");
    }
    show(start, span) {
      this.span = Math.min(span, this.run.end_ns * 1.02);
      this.start = Math.max(0, Math.min(start, this.run.end_ns * 1.02 - this.span));
      this.draw();
    }

    get width() {
      return Math.max(50, this.canvas.clientWidth - NAMES);
    }
    x(ns) {
      return NAMES + (ns - this.start) / this.span * this.width;
    }
    time(x) {
      return this.start + (x - NAMES) / this.width * this.span;
    }
    isBroken(client, place) {
      return this.broken.has(client + " " + place);
    }
    inWords(bar) {
      const end = bar.end_ns === null ? "never answered" : `answered after ${seconds(bar.end_ns - bar.start_ns, 6)}`;
      return `${seconds(bar.start_ns, 6)}: ${bar.words} (${bar.came === "ok" ? "" : bar.came + ", "}${end})`;
    }

    draw() {
      const scale = devicePixelRatio || 1, canvas = this.canvas;
      canvas.style.height = this.height + "px";
      canvas.width = Math.round(canvas.clientWidth * scale);
      canvas.height = Math.round(this.height * scale);
      this.pen = canvas.getContext("2d");
      this.pen.scale(scale, scale);
      this.pen.font = "12px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";
      this.ink = colours();
      this.pen.save();
      this.pen.beginPath();
      this.pen.rect(NAMES, 0, this.width, this.height);
      this.pen.clip();
      this.drawAxis();
      for (const lane of [...this.nodes, ...this.clients]) this.drawLane(lane);
      for (const lane of this.faults) this.drawFault(lane);
      for (const lane of this.nodes) this.drawNode(lane);
      this.clients.forEach((lane, client) => this.drawClient(lane, client));
      this.drawMarks();
      this.pen.restore();
      this.drawNames();
    }

    drawNames() {
      this.pen.fillStyle = this.ink.ink;
      for (const lane of [...this.faults, ...this.nodes, ...this.clients]) {
        let name = lane.name;
        while (name.length > 3 && this.pen.measureText(name).width > NAMES - 8) name = name.slice(0, -2) + "\u2026";
        this.pen.fillText(name, 0, lane.y + Math.min(lane.height, 20) / 2 + 4);
      }
    }

    drawAxis() {
      const least = this.span / this.width * 90;
      const power = 10 ** Math.floor(Math.log10(least));
      const step = [1, 2, 5, 10].map(of => of * power).find(of => of >= least);
      const digits = Math.max(0, Math.ceil(9 - Math.log10(step)));
      for (let at = Math.ceil(this.start / step) * step; at <= this.start + this.span; at += step) {
        this.line(this.x(at), 16, this.height, this.ink.line);
        this.text(seconds(at, digits), this.x(at) + 3, 12, this.ink.faint);
      }
    }

    // A lane, with what faults are on it.
    drawLane(lane) {
      this.box(NAMES, lane.y, this.width, lane.height, this.ink.card);
      for (const fault of this.run.faults) {
        const is = fault.on.includes(lane.name) ? "bad-fill" : fault.off.includes(lane.name) ? "open-fill" : null;
        const end = fault.end_ns === null ? this.run.end_ns : fault.end_ns;
        if (is) this.box(this.x(fault.start_ns), lane.y, Math.max(2, this.x(end) - this.x(fault.start_ns)), lane.height, this.ink[is]);
      }
    }

    drawFault(lane) {
      const fault = lane.of, start = this.x(fault.start_ns), end = this.x(fault.end_ns ?? this.run.end_ns);
      this.box(start, lane.y, Math.max(2, end - start), lane.height, this.ink["bad-fill"]);
      this.frame(start, lane.y, Math.max(2, end - start), lane.height, this.ink.bad, fault.end_ns === null);
      const words = this.fitting(Math.max(start, NAMES) + 4, this.pen.measureText(fault.words).width);
      this.text(fault.words, words, lane.y + 13, this.ink.ink);
    }

    drawNode(lane) {
      const fills = ["fua", "write", "operation", "open-fill"];
      lane.of.roles.forEach((bar, place) => {
        const start = this.x(bar.start_ns), end = this.x(bar.end_ns);
        const fill = fills[this.roles.indexOf(bar.role) % fills.length];
        this.box(start, lane.y + 8, Math.max(1, end - start), lane.height - 16, this.ink[fill]);
        if (place > 0) this.line(start, lane.y, lane.y + lane.height, this.ink.accent);
        const words = bar.more === "" ? bar.role : `${bar.role} ${bar.more}`;
        if (end - Math.max(start, NAMES) > 40) {
          this.text(words, Math.max(start, NAMES) + 4, lane.y + 19, this.ink.ink, end - Math.max(start, NAMES) - 6);
        }
      });
      for (const mark of lane.of.marks) this.line(this.x(mark.time_ns), lane.y, lane.y + lane.height, this.ink.ink);
    }

    // What is broken is above all others. Edges are on whole pixels, or thin bars would be pale.
    drawClient(lane, client) {
      const isBroken = place => this.isBroken(client, place);
      lane.of.operations.forEach((bar, place) => { if (!isBroken(place)) this.drawBar(lane, bar, false); });
      lane.of.operations.forEach((bar, place) => { if (isBroken(place)) this.drawBar(lane, bar, true); });
      for (const mark of lane.of.marks) this.line(this.x(mark.time_ns), lane.y, lane.y + lane.height, this.ink.ink);
    }

    drawBar(lane, bar, isBroken) {
      const start = Math.round(this.x(bar.start_ns)), end = Math.round(this.x(bar.end_ns ?? this.run.end_ns));
      if (end < NAMES || start > NAMES + this.width) return;
      const y = lane.y + bar.row * lane.row, wide = Math.max(1, end - start), isOpen = bar.came === "unknown";
      const fill = isBroken ? "bad" : { ok: "write-edge", fail: "ink", unknown: wide < 4 ? "open" : "open-fill" }[bar.came];
      this.box(start, y + 1, wide, lane.row - 2, this.ink[fill]);
      if (isOpen && wide >= 4) this.frame(start, y + 1, wide, lane.row - 2, this.ink[isBroken ? "bad" : "open"], true);
      if (isBroken) this.triangle(end, y);
    }

    drawMarks() {
      let free = NAMES;
      for (const mark of this.run.marks) {
        const x = this.x(mark.time_ns), width = this.pen.measureText(mark.words).width;
        this.line(x, 18, this.height, this.ink.accent, [4, 3]);
        const start = this.fitting(x + 3, width);
        if (x < NAMES || start < free) continue;
        this.text(mark.words, start, 27, this.ink.accent);
        free = start + width + 8;
      }
    }

    // Where a text begins that would end beyond the edge.
    fitting(x, width) {
      const end = NAMES + this.width;
      return x < end && x + width > end ? Math.max(NAMES + 4, x - width - 8) : x;
    }

    box(x, y, width, height, fill) {
      this.pen.fillStyle = fill;
      this.pen.fillRect(x, y, width, height);
    }
    // One that is open has no right edge.
    frame(x, y, width, height, stroke, isOpen) {
      this.pen.strokeStyle = stroke;
      this.pen.setLineDash(isOpen ? [3, 2] : []);
      this.pen.beginPath();
      this.pen.moveTo(x + width, y + 0.5);
      this.pen.lineTo(x + 0.5, y + 0.5);
      this.pen.lineTo(x + 0.5, y + height - 0.5);
      this.pen.lineTo(x + width, y + height - 0.5);
      if (!isOpen) this.pen.closePath();
      this.pen.stroke();
    }
    line(x, top, bottom, stroke, dash = []) {
      this.pen.strokeStyle = stroke;
      this.pen.setLineDash(dash);
      this.pen.beginPath();
      this.pen.moveTo(Math.round(x) + 0.5, top);
      this.pen.lineTo(Math.round(x) + 0.5, bottom);
      this.pen.stroke();
    }
    triangle(x, y) {
      this.pen.fillStyle = this.ink.bad;
      this.pen.beginPath();
      this.pen.moveTo(x - 5, y - 6);
      this.pen.lineTo(x + 5, y - 6);
      this.pen.lineTo(x, y + 1);
      this.pen.fill();
    }
    text(words, x, y, fill, most) {
      this.pen.save();
      if (most) {
        this.pen.beginPath();
        this.pen.rect(x, y - 14, most, 20);
        this.pen.clip();
      }
      this.pen.fillStyle = fill;
      this.pen.fillText(words, x, y);
      this.pen.restore();
    }

    // What is under the pointer.
    tell(x, y) {
      const at = this.time(x), near = this.span / this.width * 3;
      const isAt = (start, end) => start - near <= at && at <= (end ?? this.run.end_ns) + near;
      const lane = [...this.faults, ...this.nodes, ...this.clients].find(one => one.y <= y && y < one.y + one.height);
      const told = [];
      if (y < AXIS) for (const mark of this.run.marks) if (isAt(mark.time_ns, mark.time_ns)) told.push(`${seconds(mark.time_ns, 6)}: ${mark.words}`);
      if (lane?.kind === "fault") told.push(lane.of.words);
      if (lane?.kind === "node") {
        for (const bar of lane.of.roles) if (isAt(bar.start_ns, bar.end_ns)) told.push(`${lane.name} is ${bar.role} ${bar.more}`.trim());
        for (const mark of lane.of.marks) if (isAt(mark.time_ns, mark.time_ns)) told.push(`${seconds(mark.time_ns, 6)}: ${lane.name} ${mark.words}`);
      }
      if (lane?.kind === "client") {
        const row = Math.floor((y - lane.y) / lane.row);
        const bars = lane.of.operations.filter(bar => bar.row === row && isAt(bar.start_ns, bar.end_ns));
        const count = bars.length;
        told.push(...bars.slice(0, 3).map(bar => this.inWords(bar)));
        if (count > 3) told.push(`and ${count - 3} more`);
      }
      this.what.textContent = told.join("; ");
    }
  }

  const charts = new Map();
  function drawn(place) {
    if (charts.has(place)) return;
    const data = document.getElementById("lanes-" + place.dataset.run);
    charts.set(place, new Chart(place, JSON.parse(data.textContent)));
  }
  // The one on top is there with the page. Those that nobody has scrolled to yet cost nothing.
  const first = document.querySelector(".lanes");
  if (first && !first.closest("details")) addEventListener("load", () => drawn(first));
  const seen = new IntersectionObserver(entries => {
    for (const entry of entries) if (entry.isIntersecting) drawn(entry.target);
  }, { rootMargin: "300px" });
  document.querySelectorAll(".lanes").forEach(place => seen.observe(place));
})();
