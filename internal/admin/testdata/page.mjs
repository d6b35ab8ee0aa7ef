// Runs the dashboard's script in a document that has just what it uses, feeds
// it the answers of stdin, and prints what the page then says, as JSON:
//
//   {"texts": {id: text}, "classes": {id: class}, "colours": {team: class}, "broken": […], "fetched": […], …}
//
// stdin: {"script": "…", "ids": […], "answers": [{…}, one a poll], "status": 200,
//         "team": the one to choose, "hover": the minute to point at, or -1, "path": the page's, if it is a team's}
import { readFileSync } from "node:fs";
import vm from "node:vm";

const input = JSON.parse(readFileSync(0, "utf8"));

class Node {
  constructor(tag) {
    Object.assign(this, { tagName: tag, children: [], attributes: {}, style: {}, dataset: {}, listeners: {}, hidden: false, clientWidth: 800, parent: null });
  }
  setAttribute(k, v) { this.attributes[k] = String(v); }
  get className() { return this.attributes.class || ""; }
  set className(v) { this.attributes.class = v; }
  append(...nodes) { for (const n of nodes) { this.children.push(n); if (n instanceof Node) n.parent = this; } }
  replaceChildren(...nodes) { this.children = []; this.append(...nodes); }
  addEventListener(name, f) { this.listeners[name] = f; }
  get parentElement() { return this.parent ??= new Node("div"); }
  get textContent() { return this.children.map((c) => (c instanceof Node ? c.textContent : String(c))).join(" ").replace(/\s+/g, " ").trim(); }
  set textContent(v) { this.children = [String(v)]; }
  set innerHTML(_) { throw new Error("innerHTML is not used here: names are no markup"); }
  get options() { return this.children; }
  get value() { return this.chosen ?? this.attributes.value ?? ""; }
  set value(v) { this.chosen = v; }
}

const byID = Object.fromEntries(input.ids.map((id) => [id, new Node(id)]));
byID.team.append(new Node("option"));
const timers = [];
let again; // the next poll
const fetched = [];
const context = {
  document: {
    documentElement: new Node("html"), hidden: false, addEventListener() {},
    getElementById(id) { if (!byID[id]) throw new Error(`the page has no ${id}`); return byID[id]; },
    createElement: (tag) => new Node(tag), createElementNS: (_, tag) => new Node(tag),
  },
  matchMedia: () => ({ matches: true, addEventListener() {} }),
  localStorage: { getItem: () => null, setItem() {} },
  location: { pathname: input.path || "/dashboard", reload() { fetched.push("reload"); } },
  history: { replaceState(_, __, url) { fetched.push(`address ${url}`); } },
  fetch: async (url) => { fetched.push(url); return { status: input.status, ok: input.status === 200, json: async () => input.answers.shift() }; },
  setTimeout: (f, ms) => { timers.push(ms); again = f; }, setInterval() {}, addEventListener() {}, AbortSignal, console: { error() {} }, Intl, Date, Math, Map, Set, Array, Object, Promise, Error,
};
vm.runInNewContext(input.script, context);
await new Promise((done) => setTimeout(done, 0));
for (let polls = input.answers.length; polls > 0 && input.status === 200; polls--) await again(); // the first took one
if (input.team) {
  byID.team.value = input.team;
  byID.team.listeners.change();
}

// all lists a node and what is in it.
const all = (n) => [n, ...n.children.filter((c) => c instanceof Node).flatMap(all)];
if (input.hover >= 0) {
  const hit = () => all(byID.chart).filter((n) => n.className.startsWith("hover"))[input.hover];
  const first = hit();
  first.listeners.pointerenter();
  const second = hit();
  second.listeners.pointerenter(); // the new shape under the same pointer
  if (second !== hit()) throw new Error("a pointer that rests draws the page again and again");
}

const texts = {}, classes = {}, attributes = [];
for (const [id, node] of Object.entries(byID)) {
  texts[id] = node.hidden ? "" : node.textContent;
  classes[id] = node.className;
  for (const n of all(node)) attributes.push(...Object.values(n.attributes));
}
const colours = Object.fromEntries(byID.legend.children.map((li) => [li.children[1], li.children[0]?.className]));
const broken = attributes.filter((a) => /NaN|undefined|Infinity/.test(a));
console.log(JSON.stringify({ texts, classes, colours, broken, fetched, polls: timers.length, theme: context.document.documentElement.dataset.theme }));
