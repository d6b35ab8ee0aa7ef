// Runs the dashboard's script in a document that has just what it uses, feeds
// it the answers of stdin, and prints what the page then says, as JSON:
//
//   {"texts": {id: text}, "classes": {id: class}, "attributes": […], "fetched": […]}
//
// stdin: {"script": "…", "ids": […], "team": "…", "answer": {…}, "status": 200}
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
const fetched = [];
const context = {
  document: {
    documentElement: new Node("html"), hidden: false, addEventListener() {},
    getElementById(id) { if (!byID[id]) throw new Error(`the page has no ${id}`); return byID[id]; },
    createElement: (tag) => new Node(tag), createElementNS: (_, tag) => new Node(tag),
  },
  matchMedia: () => ({ matches: true, addEventListener() {} }),
  localStorage: { getItem: () => null, setItem() {} },
  location: { reload() { fetched.push("reload"); } },
  fetch: async (url) => { fetched.push(url); return { status: input.status, ok: input.status === 200, json: async () => input.answer }; },
  setTimeout: (f, ms) => timers.push(ms), setInterval() {}, addEventListener() {}, AbortSignal, Intl, Date, Math, Map, Set, Array, Object, Promise, Error,
};
vm.runInNewContext(input.script, context);
await new Promise((done) => setTimeout(done, 0));
if (input.team) {
  byID.team.value = input.team;
  byID.team.listeners.change();
}

const texts = {}, classes = {}, attributes = [];
for (const [id, node] of Object.entries(byID)) {
  texts[id] = node.hidden ? "" : node.textContent;
  classes[id] = node.className;
  const walk = (n) => { if (n instanceof Node) { attributes.push(...Object.values(n.attributes)); n.children.forEach(walk); } };
  walk(node);
}
const broken = attributes.filter((a) => /NaN|undefined|Infinity/.test(a));
console.log(JSON.stringify({ texts, classes, broken, fetched, polls: timers.length, theme: context.document.documentElement.dataset.theme }));
