import { ask } from "./ask.js";
import { behind, clock, element as e, number, seconds, sparkline } from "./elements.js";
import { openPositions } from "./positions.js";

const EVERY = 2000;
const main = document.getElementById("main");
const seen = document.getElementById("seen");
const opened = new Set();
let readOnly = true;
let drawing = false;

const chosen = () => decodeURIComponent(location.hash.slice(1));
const address = (id) => `/api/v1/pipelines/${encodeURIComponent(id)}`;

// Nothing may change under a pressed mouse button, or while a text is selected to be copied.
let pressed = false;
addEventListener("pointerdown", () => (pressed = true));
for (const end of ["pointerup", "pointercancel", "blur"]) addEventListener(end, () => (pressed = false));
const isBusy = () => pressed || (!getSelection().isCollapsed && main.contains(getSelection().anchorNode));

async function draw() {
  if (drawing) return;
  drawing = true;
  try {
    const list = await ask("/api/v1/pipelines");
    readOnly = list.readOnly;
    const usable = list.pipelines.filter((one) => one.id);
    // Kept in the address: when its file gets a fault, no other pipeline may come under the mouse.
    if (!chosen() && usable.length) history.replaceState(null, "", `#${encodeURIComponent(usable[0].id)}`);
    const id = usable.find((one) => one.id === chosen())?.id;
    drawNames(usable, id);
    const faults = list.pipelines.filter((one) => one.fault).map(fault);
    const none = usable.length ? `No file that can be used has the pipeline ${chosen()}.` : "No pipeline file can be used.";
    const parts = id ? await pipeline(id) : [e("p", { class: "quiet" }, none)];
    if (isBusy()) return;
    const inside = main.contains(document.activeElement) ? document.activeElement.id : "";
    main.replaceChildren(...faults, ...parts);
    if (inside) document.getElementById(inside)?.focus();
    seen.textContent = `as of ${new Date().toLocaleTimeString("sv")}`;
    seen.className = "";
  } catch (error) {
    seen.textContent = `the server does not answer (${error.message})`;
    seen.className = "bad";
  } finally {
    drawing = false;
  }
}

function drawNames(pipelines, id) {
  const isAlone = ({ name }) => pipelines.filter((one) => one.name === name).length === 1;
  const label = (one) => (isAlone(one) ? one.name : `${one.name}:${one.group}`);
  const links = pipelines.map((one) =>
    e("a", { href: `#${encodeURIComponent(one.id)}`, "aria-current": one.id === id ? "page" : null }, label(one)),
  );
  document.getElementById("pipelines").replaceChildren(...links);
}

const fault = (one) => e("section", { class: "card stop" }, e("h3", {}, one.files.join(", ")), e("pre", {}, one.fault));

async function pipeline(id) {
  const [found, groups] = await Promise.all([ask(address(id)), ask(`${address(id)}/groups`)]);
  const parts = [];
  if (found.error) parts.push(e("section", { class: "card stop", role: "alert" }, e("p", {}, found.error)));
  const status = found.status;
  if (!status) return parts;
  return [
    head(status, found),
    ...parts,
    ...found.stops.map((stop) => stopped(id, stop)),
    topics(id, status),
    ...groupTable(groups),
  ];
}

function head(status, found) {
  const facts = [
    ["lag", `${number(status.lag)} offsets`],
    ["behind", behind(status)],
    ["copied", `${number(Math.round(status.recordsPerSecond))} records/s`],
    ["last commit", clock(status.lastCommit)],
    ["delivery", status.delivery],
    ["stopped", found.stops.length ? number(found.stops.length) : "none"],
  ];
  const tiles = facts.map(([name, value]) =>
    e("div", { class: name === "stopped" && found.stops.length ? "tile bad" : "tile" }, e("dt", {}, name), e("dd", {}, value)),
  );
  return e(
    "section",
    {},
    e("h2", {}, status.pipeline, " ", e("small", {}, `${status.source} → ${status.target}`)),
    e("dl", { class: "tiles" }, ...tiles),
  );
}

function stopped(id, stop) {
  const buttons = readOnly
    ? []
    : stop.remedies.map((remedy) =>
        e(
          "button",
          { onclick: () => openPositions(address(id), remedy, draw), title: remedy.offsets.join(" ") },
          "Put it right …",
        ),
      );
  return e(
    "section",
    { class: "card stop" },
    e("h3", {}, `${stop.topic}-${stop.partition} is stopped `, e("code", {}, stop.code)),
    e("p", {}, stop.found),
    stop.remedy && e("p", { class: "remedy" }, stop.remedy),
    e("div", { class: "buttons" }, ...buttons),
  );
}

function topics(id, status) {
  const names = ["topic", "target topic", "state", "lag", "behind", "records/s", "last minutes", "last commit", ""];
  const order = [...status.topics].sort(
    (a, b) => (b.state === "stopped") - (a.state === "stopped") || b.lag - a.lag || a.topic.localeCompare(b.topic),
  );
  const rows = order.flatMap((topic) => [topicRow(id, topic), ...(opened.has(key(id, topic)) ? [partitionRow(id, topic)] : [])]);
  return e(
    "section",
    {},
    e("table", { class: "topics" },
      e("thead", {}, e("tr", {}, ...names.map((name) => e("th", { scope: "col" }, name)))),
      e("tbody", {}, ...rows)),
    status.topics.length ? null : e("p", { class: "quiet" }, "No topic of the source is selected."),
  );
}

const key = (id, topic) => `${id} ${topic.topic}`;

function topicRow(id, topic) {
  const toggle = () => {
    if (!opened.delete(key(id, topic))) opened.add(key(id, topic));
    draw();
  };
  const expanded = String(opened.has(key(id, topic)));
  return e(
    "tr",
    { class: `state-${topic.state.replace(" ", "-")}`, "data-topic": topic.topic },
    e("td", {}, e("button", { class: "link", id: `open ${key(id, topic)}`, "aria-expanded": expanded, onclick: toggle }, topic.topic)),
    e("td", {}, topic.targetTopic ?? "none"),
    e("td", {}, e("span", { class: "state", title: topic.paused ? pausedBy(topic.paused) : null }, topic.state)),
    e("td", { class: "number" }, number(topic.lag)),
    e("td", { class: "number" }, behind(topic)),
    e("td", { class: "number" }, number(Math.round(topic.recordsPerSecond))),
    e("td", {}, sparkline(topic.history.records)),
    e("td", {}, clock(topic.lastCommit)),
    e("td", { class: "actions" }, ...(readOnly ? [] : [pauseButton(id, topic), setButton(id, topic.topic, "all")])),
  );
}

const pausedBy = (pause) => `paused by ${pause.by} since ${clock(pause.since)}${pause.reason ? `: ${pause.reason}` : ""}`;

function pauseButton(id, topic) {
  const what = topic.paused ? "resume" : "pause";
  const change = async (event) => {
    event.target.disabled = true;
    const answer = await ask(`${address(id)}/${what}`, { topics: [topic.topic] });
    if (!answer.ok) alert(answer.error);
    draw();
  };
  return e("button", { id: `pause ${key(id, topic)}`, onclick: change }, topic.paused ? "Resume" : "Pause");
}

const setButton = (id, topic, partition) =>
  e(
    "button",
    {
      id: `set ${id} ${topic} ${partition}`,
      onclick: () => openPositions(address(id), { offsets: [`${topic}:${partition}:`] }, draw),
    },
    "Set …",
  );

function partitionRow(id, topic) {
  const names = ["partition", "committed", "last", "lag", "behind", ""];
  const rows = topic.partitions.map((one) =>
    e(
      "tr",
      { class: one.stopped ? "state-stopped" : null },
      e("td", { class: "number" }, String(one.partition)),
      e("td", { class: "number" }, number(one.position)),
      e("td", { class: "number" }, number(one.end)),
      e("td", { class: "number" }, number(one.lag)),
      e("td", { class: "number" }, seconds(one.secondsBehind)),
      e("td", { class: "actions" }, readOnly ? "" : setButton(id, topic.topic, one.partition)),
    ),
  );
  const table = e(
    "table",
    { class: "partitions" },
    e("thead", {}, e("tr", {}, ...names.map((name) => e("th", { scope: "col" }, name)))),
    e("tbody", {}, ...rows),
  );
  return e("tr", { class: "inside" }, e("td", { colspan: 9 }, table));
}

function groupTable(found) {
  if (found.unknown) return [e("section", { class: "card" }, e("h3", {}, "Consumer groups"), e("p", {}, found.unknown))];
  if (!found.groups?.length) return [];
  const shown = (positions) => positions.map((one) => `${one.topic}-${one.partition}: ${number(one.offset)}`).join("\n");
  const rows = found.groups.map((group) =>
    e(
      "tr",
      {},
      e("td", {}, group.group),
      e("td", {}, e("pre", {}, shown(group.source))),
      e("td", {}, group.target.length ? e("pre", {}, shown(group.target)) : e("span", { class: "quiet" }, "not on the target yet")),
    ),
  );
  const names = ["group", "committed on the source", "committed on the target"];
  return [
    e(
      "section",
      {},
      e("h3", {}, "Consumer groups"),
      e("table", { class: "groups" },
        e("thead", {}, e("tr", {}, ...names.map((name) => e("th", { scope: "col" }, name)))),
        e("tbody", {}, ...rows)),
    ),
  ];
}

addEventListener("hashchange", draw);
document.addEventListener("visibilitychange", () => document.hidden || draw());
setInterval(() => document.hidden || document.getElementById("positions").open || draw(), EVERY);
draw();
