"use strict";
(() => {
  const GROUPS_AT_ONCE = 20, MEMBERS_AT_ONCE = 50, LOST_NAMED = 12;
  const SVG = "http://www.w3.org/2000/svg";
  const byId = id => document.getElementById(id);
  const index = JSON.parse(byId("index").textContent);
  const chunks = document.querySelectorAll("script.details");
  const parsed = new Map();

  // What is in the details is text from the system under test: it only ever becomes text nodes.
  function element(name, attributes, ...children) {
    return fill(document.createElement(name), attributes, children);
  }
  function drawn(name, attributes, ...children) {
    return fill(document.createElementNS(SVG, name), attributes, children);
  }
  function fill(made, attributes, children) {
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...children.filter(child => child !== null));
    return made;
  }

  function detail(item) {
    const place = Math.floor(item / index.chunk);
    if (!parsed.has(place)) parsed.set(place, JSON.parse(chunks[place].textContent));
    return parsed.get(place)[item % index.chunk];
  }

  const searched = index.items.map(item => [
    item.number === null ? "" : "#" + item.number + " ", item.workload, item.headline, item.operations.join("; "),
    item.promises.map(promise => index.promises[promise].name).join(" "), index.suites[item.suite],
  ].join("\n").toLowerCase());

  function matching() {
    const suite = byId("suite").value, promise = byId("promise").value, verdict = byId("verdict").value;
    const wanted = byId("text").value.trim().toLowerCase();
    const needle = /^#\d+$/.test(wanted) ? wanted + " " : wanted;
    const groups = new Map();
    let count = 0;
    index.items.forEach((item, place) => {
      if (suite !== "" && item.suite !== Number(suite)) return;
      if (promise !== "" && !item.promises.some(broken => index.promises[broken].name === promise)) return;
      if (verdict !== "" && item.verdict !== verdict) return;
      if (needle !== "" && !searched[place].includes(needle)) return;
      count += 1;
      if (!groups.has(item.group)) groups.set(item.group, []);
      groups.get(item.group).push(place);
    });
    return { groups: [...groups], count };
  }

  let waiting = [];
  function show() {
    const found = matching();
    waiting = found.groups;
    byId("groups").replaceChildren();
    const groups = found.groups.length;
    byId("status").textContent = index.items.length === 0 ? "Nothing was found."
      : `${found.count} of ${index.items.length} in ${groups} ${groups === 1 ? "group" : "groups"}: `
        + "what breaks the same promises in the same way is put together.";
    showMore();
  }
  function showMore() {
    byId("groups").append(...waiting.splice(0, GROUPS_AT_ONCE).map(([group, members]) => groupOf(group, members)));
    byId("more").hidden = waiting.length === 0;
    byId("more").textContent = `Show more (${waiting.length} groups)`;
  }

  function groupOf(group, members) {
    const { representative, states } = index.groups[group];
    const first = members.includes(representative) ? representative : members[0];
    const item = index.items[first];
    const others = members.filter(member => member !== first);
    const title = item.promises.map(promise => index.promises[promise].name).join(", ");
    const unit = item.verdict === "finding" ? "finding" : "workload";
    const count = `${members.length} ${unit}${members.length === 1 ? "" : "s"}`
      + (states > members.length ? `, ${states} crash states` : "");
    const made = element("section", { class: "group" },
      element("header", {},
        element("span", { class: "tag " + item.verdict }, item.verdict),
        element("h3", {}, index.suites[item.suite] + (title === "" ? "" : ": " + title)),
        element("span", { class: "count" }, count)),
      story(first));
    if (others.length > 0) made.append(membersOf(others));
    return made;
  }

  /// A details element whose content is made when it is opened.
  function lazy(summary, make) {
    const made = element("details", {}, element("summary", {}, ...summary));
    made.addEventListener("toggle", () => {
      if (made.open && made.children.length === 1) made.append(make());
    });
    return made;
  }

  function membersOf(members) {
    return lazy([`${members.length} more like this`], () => {
      const list = element("ul", { class: "members" });
      const button = element("button", { type: "button" });
      const left = members.slice();
      const more = () => {
        for (const member of left.splice(0, MEMBERS_AT_ONCE)) {
          const what = element("span", { class: "what" }, index.items[member].headline);
          list.append(element("li", {}, lazy([nameOf(member), " ", what], () => story(member))));
        }
        button.hidden = left.length === 0;
        button.textContent = `Show more (${left.length})`;
      };
      button.addEventListener("click", more);
      more();
      return element("div", {}, list, button);
    });
  }

  function nameOf(place) {
    const item = index.items[place];
    return (item.number === null ? "" : `Finding ${item.number}: `) + item.workload;
  }

  function story(place) {
    const item = index.items[place];
    const made = element("article", {}, element("h4", {}, nameOf(place)));
    if (item.verdict !== "finding") {
      made.append(element("p", {}, item.headline), element("code", { class: "replay" }, item.operations[0]));
      return made;
    }
    const of = detail(place);
    made.append(operations(item, of));
    if (of.log !== null) made.append(timeline(place, item, of), logTable(of));
    const facts = element("dl");
    const fact = (name, text, attributes) => facts.append(element("dt", {}, name), element("dd", attributes, text));
    if (of.disk !== "") fact("disk", of.disk);
    const named = of.log === null ? [] : of.lost.filter(lost => lost.place in of.log.holds).slice(0, LOST_NAMED);
    for (const { place: write } of named) fact("lost", `write ${write}: ${of.log.holds[write]}`);
    if (of.more > 0) fact("likewise", `${of.more} more ${of.more === 1 ? "state of this workload breaks" : "states of this workload break"} the same`);
    for (const broken of of.broken) {
      fact("broken", (broken.path === "" ? "" : broken.path + ": ") + broken.what, { class: "broken" });
      const promise = index.promises[broken.promise];
      const by = broken.by === null ? "" : `; by operation ${broken.by}, ${item.operations[broken.by]}`;
      if (broken.because === null) fact("promised", `${promise.words} (${promise.name})${by}`);
      else facts.append(element("dt", {}, "because"), element("dd", {}, element("pre", { tabindex: "0" }, broken.because)));
      if (broken.source !== null) fact("source", index.sources[broken.source]);
    }
    for (const way of of.prevented) fact("prevented by", way);
    if (of.death !== null) {
      fact("during", of.death.during);
      fact("broken", "the kernel died, or never came back: " + of.death.what, { class: "broken" });
    }
    made.append(facts);
    if (of.death !== null) {
      made.append(lazy(["What the kernel said last"], () => element("pre", { tabindex: "0" }, of.death.log.join("\n"))));
    }
    made.append(element("p", { class: "note" }, "To run it again:"), element("code", { class: "replay" }, of.replay));
    return made;
  }

  function operations(item, of) {
    const list = element("ol", { class: "operations", "aria-label": "Operations" });
    item.operations.forEach((text, number) => {
      const underWay = of.under_way && number === of.done;
      const last = !of.under_way && of.done !== null && number + 1 === of.done;
      const mark = underWay ? "← the power fails while this is done" : last ? "← the power fails here" : null;
      list.append(element("li", number < of.setup ? { class: "setup", title: "setup" } : {},
        element("span", { class: "number" }, String(number)),
        element("span", {}, text + (number < of.setup ? "  (setup)" : ""), " ",
          mark === null ? null : element("span", { class: "crash" }, mark))));
    });
    return list;
  }

  function bytes(count) {
    for (const [unit, size] of [["G", 2 ** 30], ["M", 2 ** 20], ["K", 2 ** 10]]) {
      if (count >= size) return (count % size === 0 ? String(count / size) : (count / size).toFixed(1)) + unit;
    }
    return String(count);
  }

  const KINDS = { W: "write", U: "write with FUA", D: "discard", F: "flush" };
  function fate(entry, lost) {
    const [place, kind, , length] = entry;
    if (kind === "F") return "";
    const gone = lost.get(place);
    return gone === undefined ? "kept" : gone.length < length ? "torn" : "lost";
  }
  function describe(entry, lost, holds) {
    const [place, kind, offset, length, operation] = entry;
    const where = kind === "F" ? "" : `: ${length} bytes at ${offset}, ${fate(entry, lost)}`;
    return `${KINDS[kind]} ${place}${where}` + (operation === null ? "" : `, during operation ${operation}`)
      + (place in holds ? `: ${holds[place]}` : "");
  }
  const lostOf = of => new Map(of.lost.map(lost => [lost.place, lost]));
  const requestsOf = of => of.log.entries.filter(entry => entry[1] in KINDS);

  // Operations above, the disk below, both along the log.
  function timeline(place, item, of) {
    const STEP = 42, BOX = 34, TOP = 6, LANE = 62, HEIGHT = 142, LETTER = 6.7;
    const lost = lostOf(of), requests = requestsOf(of);
    const bars = drawn("g"), boxes = drawn("g");
    let x = 10, open = null;
    if (of.log.left_out > 0) {
      boxes.append(drawn("text", { x, y: LANE + 17, class: "small" }, `${of.log.left_out} earlier …`));
      x += 90;
    }
    const close = (end, underWay) => {
      const width = Math.max(end - open.x - 4, 18);
      const text = `${open.number} ${item.operations[open.number]}`, room = Math.floor((width - 8) / LETTER);
      const shown = text.length <= room ? text : room > 5 ? text.slice(0, room - 1) + "…" : String(open.number);
      bars.append(drawn("rect", { x: open.x, y: TOP, width, height: 24, rx: 4, class: underWay ? "operation under-way" : "operation" },
          drawn("title", {}, text + (underWay ? ", under way when the power failed" : ""))),
        drawn("text", { x: open.x + 5, y: TOP + 16 }, shown));
      open = null;
    };
    for (const entry of of.log.entries) {
      const [, kind, , , operation] = entry;
      if (kind === "B") {
        open = { number: operation, x, empty: true };
      } else if (kind === "E") {
        if (open !== null) {
          if (open.empty) x += STEP;
          close(x, false);
        }
        x += 4;
      } else {
        // The mark may be among what was left out.
        if (open === null && operation !== null) open = { number: operation, x, empty: false };
        if (open !== null) open.empty = false;
        boxes.append(request(entry, lost, of.log.holds, x, LANE, BOX));
        x += STEP;
      }
    }
    if (open !== null) {
      if (open.empty) x += STEP;
      close(x + 2, true);
    }
    const width = Math.max(x + 14, 110), end = x + 4;
    const [titleId, descId] = [`title-${place}`, `desc-${place}`];
    const torn = requests.filter(entry => fate(entry, lost) === "torn").length;
    const count = requests.filter(entry => fate(entry, lost) === "lost").length;
    const flushes = requests.filter(entry => entry[1] === "F").length;
    const words = `${requests.length - flushes} writes and discards and ${flushes} flushes until the power failed; `
      + `${count} lost, ${torn} torn. The disk ${of.disk}.`;
    const picture = drawn("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-labelledby": `${titleId} ${descId}` },
      drawn("title", { id: titleId }, `Timeline of ${nameOf(place)}`), drawn("desc", { id: descId }, words),
      drawn("line", { x1: 4, x2: end, y1: LANE + 13, y2: LANE + 13, class: "axis" }), bars, boxes,
      drawn("line", { x1: end, x2: end, y1: 2, y2: HEIGHT - 18, class: "power" }),
      drawn("text", { x: end + 4, y: HEIGHT - 5, "text-anchor": "end", class: "power-label" }, "the power fails"));
    const frame = element("div", { class: "scroll timeline", tabindex: "0", role: "group", "aria-label": `Timeline of ${nameOf(place)}` }, picture);
    // What matters is at the end.
    requestAnimationFrame(() => { frame.scrollLeft = frame.scrollWidth; });
    return frame;
  }

  function request(entry, lost, holds, x, y, width) {
    const [place, kind, , length] = entry;
    const made = drawn("g", { class: "request" }, drawn("title", {}, describe(entry, lost, holds)));
    const middle = x + width / 2;
    const label = (text, up, attributes) => made.append(drawn("text", { x: middle, y: y + up, "text-anchor": "middle", ...attributes }, text));
    if (kind === "F") {
      made.append(drawn("line", { x1: middle, x2: middle, y1: y - 8, y2: y + 34, class: "flush" }));
      label("F", -12, { class: "flush-label" });
      label(String(place), 52, { class: "small" });
      return made;
    }
    const style = { W: "write", U: "fua", D: "discard" }[kind];
    made.append(drawn("rect", { x, y, width, height: 26, rx: 3, class: style }));
    const gone = lost.get(place);
    if (gone !== undefined) {
      // The part that was lost, as wide as it is of the whole, and wide enough to be seen.
      const part = Math.max(width * gone.length / length, 6);
      const from = Math.min(x + width * (gone.offset - entry[2]) / length, x + width - part);
      made.append(drawn("rect", { x: from, y, width: part, height: 26, rx: 3, class: "lost" }),
        drawn("line", { x1: from, y1: y, x2: from + part, y2: y + 26, class: "cross" }),
        drawn("line", { x1: from + part, y1: y, x2: from, y2: y + 26, class: "cross" }));
    }
    label(kind, 17, {});
    label(bytes(length), 40, { class: "small" });
    label(String(place), 52, { class: "small" });
    if (gone !== undefined) label(fate(entry, lost), -5, { class: "small" });
    return made;
  }

  function logTable(of) {
    return lazy(["What the disk was asked, as a table"], () => {
      const lost = lostOf(of);
      const cells = (name, texts) => element("tr", {}, ...texts.map(text => element(name, name === "th" ? { scope: "col" } : {}, text)));
      const row = entry => {
        const [place, kind, offset, length, operation] = entry;
        const range = kind === "F" ? ["", ""] : [String(offset), String(length)];
        return cells("td", [KINDS[kind], String(place), ...range, operation === null ? "" : String(operation),
          fate(entry, lost), of.log.holds[place] || ""]);
      };
      return element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Log" },
        element("table", {}, element("thead", {}, cells("th", ["request", "place", "offset", "length", "operation", "after the crash", "holds"])),
          element("tbody", {}, ...requestsOf(of).map(row))));
    });
  }

  let due = 0;
  byId("filters").addEventListener("input", () => {
    clearTimeout(due);
    due = setTimeout(show, 80);
  });
  byId("filters").addEventListener("submit", event => event.preventDefault());
  byId("more").addEventListener("click", showMore);
  show();
})();
