"use strict";
// Draws what /dashboard/live tells, every second or so. All texts go into the
// page as texts, never as markup: names come from configurations and clients.
(() => {
  const $ = (id) => document.getElementById(id);
  const svgNS = "http://www.w3.org/2000/svg";
  const every = 1500; // ms between two readings
  const shown = 8; // teams with a colour of their own

  // el makes an element with attributes and children.
  const el = (tag, attrs = {}, ...children) => {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(attrs)) if (v !== undefined) e.setAttribute(k, v);
    e.append(...children.filter((c) => c !== null && c !== undefined));
    return e;
  };
  const svg = (tag, attrs = {}, ...children) => {
    const e = document.createElementNS(svgNS, tag);
    for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
    e.append(...children);
    return e;
  };
  const bar = (cls, share) => {
    const i = el("i", { class: cls });
    i.style.width = `${Math.max(0, Math.min(100, share * 100))}%`;
    return i;
  };

  const exact = new Intl.NumberFormat("en");
  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  const brief = (n) => (Math.abs(n) < 10000 ? exact.format(Math.round(n)) : compact.format(n));
  const percent = new Intl.NumberFormat("en", { style: "percent", maximumSignificantDigits: 2 });
  const money = new Intl.NumberFormat("en", { style: "currency", currency: "USD" });
  const amount = (unit, n) => (unit === "usd" ? money.format(n) : brief(n));
  const sum = (list) => list.reduce((a, b) => a + b, 0);
  const clock = (date) => date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
  const duration = (ms) => {
    const s = Math.ceil(ms / 1000);
    if (s < 100) return `${s} s`;
    if (s < 6000) return `${Math.round(s / 60)} min`;
    if (s < 360000) return `${Math.round(s / 3600)} h`;
    return `${Math.round(s / 86400)} d`;
  };

  let last = null; // the last answer
  let heard = 0; // when it came
  let hovered = -1; // the minute under the pointer
  // The address names the team of a team's own page.
  const addressed = () => decodeURIComponent(/^\/dashboard\/teams\/(.+)$/.exec(location.pathname)?.[1] || "");
  const addressOf = (team) => (team ? `/dashboard/teams/${encodeURIComponent(team)}` : "/dashboard");
  const colours = new Map(); // team → class, of the largest teams

  // ---- theme ----
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const saved = () => { try { return localStorage.getItem("llmgw-theme"); } catch { return null; } };
  const paint = (theme) => { root.dataset.theme = theme; };
  paint(saved() || (system.matches ? "dark" : "light"));
  system.addEventListener("change", (e) => { if (!saved()) paint(e.matches ? "dark" : "light"); });
  $("theme").addEventListener("click", () => {
    paint(root.dataset.theme === "dark" ? "light" : "dark");
    try { localStorage.setItem("llmgw-theme", root.dataset.theme); } catch { /* a page without storage forgets it */ }
  });

  // ---- the series ----
  // colour gives each of the largest teams a colour. One that stays keeps its own;
  // a new one takes one that no other of them has.
  const colour = (largest) => {
    const kept = new Map(largest.filter((t) => colours.has(t.name)).map((t) => [t.name, colours.get(t.name)]));
    const free = Array.from({ length: shown }, (_, i) => `f${i}`).filter((c) => ![...kept.values()].includes(c));
    for (const t of largest) if (!kept.has(t.name)) kept.set(t.name, free.shift());
    colours.clear();
    for (const [name, c] of kept) colours.set(name, c);
  };
  // stacks groups the teams of the series: the largest by name, the rest as one.
  const stacks = (series, team) => {
    const all = series.teams.map((t) => ({ name: t.team || "(none)", team: t.team, tokens: t.tokens, total: sum(t.tokens) })).sort((a, b) => b.total - a.total);
    colour(all.slice(0, shown));
    const mine = all.filter((t) => !team || t.team === team);
    const teams = mine.slice(0, shown), rest = mine.slice(shown);
    for (const t of teams) t.colour = colours.get(t.name) || "f0"; // one outside the largest is alone
    if (rest.length) {
      teams.push({ name: `${rest.length} others`, colour: "f8", total: sum(rest.map((t) => t.total)), tokens: rest[0].tokens.map((_, i) => sum(rest.map((t) => t.tokens[i]))) });
    }
    return teams;
  };
  const column = (series, key, team) => {
    const teams = series.teams.filter((t) => !team || t.team === team);
    return Array.from({ length: minutes(series) }, (_, i) => sum(teams.map((t) => t[key][i])));
  };
  const minutes = (series) => series.teams[0]?.tokens.length || series.refusals[0]?.count.length || 60;
  const minuteAt = (series, i) => new Date(Date.parse(series.start) + i * 60000);

  // axis gives a round maximum and its steps.
  const axis = (most) => {
    if (most <= 0) return { top: 1, ticks: [0] };
    const rough = most / 4;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(1, [1, 2, 2.5, 5, 10].map((k) => k * power).find((k) => k >= rough));
    const top = Math.ceil(most / step) * step;
    return { top, ticks: Array.from({ length: Math.round(top / step) + 1 }, (_, i) => i * step) };
  };

  // frame draws axes and returns how to place a value.
  const frame = (figure, series, most, height) => {
    const width = Math.max(320, figure.clientWidth || 800);
    const n = minutes(series);
    const box = { left: 46, right: width - 4, top: 8, bottom: height - 20 };
    const { top, ticks } = axis(most);
    const x = (i) => box.left + ((box.right - box.left) * i) / n;
    const y = (v) => box.bottom - ((box.bottom - box.top) * v) / top;
    const s = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
    for (const t of ticks) {
      s.append(svg("line", { class: "grid", x1: box.left, x2: box.right, y1: y(t), y2: y(t) }));
      s.append(svg("text", { x: box.left - 6, y: y(t) + 4, "text-anchor": "end" }, brief(t)));
    }
    for (let i = 0; i < n; i++) {
      const at = minuteAt(series, i);
      if (at.getMinutes() % 10 === 0 && x(i) < box.right - 20) s.append(svg("text", { x: x(i + 0.5), y: height - 4, "text-anchor": "middle" }, clock(at)));
    }
    return { s, x, y, n, box, width };
  };

  const drawChart = (series, team) => {
    const teams = stacks(series, team);
    const totals = Array.from({ length: minutes(series) }, (_, i) => sum(teams.map((t) => t.tokens[i])));
    const figure = $("chart");
    const f = frame(figure, series, Math.max(...totals), 240);
    f.s.setAttribute("aria-label", `Tokens per minute by team over the last hour; ${brief(totals.at(-2) || 0)} in the last full minute.`);
    const gap = Math.min(2, (f.x(1) - f.x(0)) * 0.15);
    for (let i = 0; i < f.n; i++) {
      let base = 0;
      for (const t of teams) {
        if (!t.tokens[i]) continue;
        f.s.append(svg("rect", {
          class: t.colour + (i === f.n - 1 ? " now" : ""), x: f.x(i) + gap / 2, width: f.x(1) - f.x(0) - gap,
          y: f.y(base + t.tokens[i]), height: Math.max(0.5, f.y(base) - f.y(base + t.tokens[i])),
        }));
        base += t.tokens[i];
      }
      const hit = svg("rect", { class: "hover" + (i === hovered ? " on" : ""), x: f.x(i), width: f.x(1) - f.x(0), y: f.box.top, height: f.box.bottom - f.box.top });
      hit.addEventListener("pointerenter", () => hover(i));
      f.s.append(hit);
    }
    f.s.addEventListener("pointerleave", () => hover(-1));
    figure.replaceChildren(f.s);
    if (hovered >= 0 && hovered < f.n) figure.append(tip(f, series, teams, totals));

    $("legend").replaceChildren(...teams.map((t) => el("li", {}, el("i", { class: t.colour }), t.name, el("b", {}, brief(t.tokens.at(-2) || 0)))));
    if (!teams.length) $("legend").replaceChildren(el("li", { class: "empty" }, "No tokens were used in the last hour."));
    if ($("table").parentElement.parentElement.open) drawTable(series, teams);
  };

  // hover draws anew only for another minute: a drawing puts new shapes under the
  // pointer, which the browser then says it has entered.
  const hover = (i) => {
    if (i === hovered) return;
    hovered = i;
    draw();
  };

  const tip = (f, series, teams, totals) => {
    const rows = teams.filter((t) => t.tokens[hovered]).map((t) => el("div", {}, el("i", { class: t.colour }), t.name, el("b", {}, exact.format(t.tokens[hovered]))));
    const now = hovered === f.n - 1 ? " (so far)" : "";
    const box = el("div", { class: "tip" }, el("div", {}, clock(minuteAt(series, hovered)) + now, el("b", {}, exact.format(totals[hovered]))), ...rows);
    const at = f.x(hovered + 0.5);
    if (at > f.width / 2) box.style.right = `${100 - (100 * (at - 16)) / f.width}%`;
    else box.style.left = `${(100 * (at + 16)) / f.width}%`;
    return box;
  };

  const drawTable = (series, teams) => {
    const head = el("tr", {}, el("th", { scope: "col" }, "minute"), ...teams.map((t) => el("th", { scope: "col" }, t.name)));
    const rows = [];
    for (let i = minutes(series) - 1; i >= 0; i--) {
      rows.push(el("tr", {}, el("td", {}, clock(minuteAt(series, i))), ...teams.map((t) => el("td", {}, exact.format(t.tokens[i])))));
    }
    $("table").replaceChildren(el("thead", {}, head), el("tbody", {}, ...rows));
  };

  const drawReserved = (series, team) => {
    const used = column(series, "tokens", team), reserved = column(series, "reserved", team);
    const f = frame($("reserved"), series, Math.max(...used, ...reserved), 150);
    f.s.setAttribute("aria-label", `Of ${brief(sum(reserved))} tokens reserved in the last hour ${brief(sum(used))} were used.`);
    for (let i = 0; i < f.n; i++) {
      if (used[i]) f.s.append(svg("rect", { class: "usedarea", x: f.x(i) + 0.5, width: f.x(1) - f.x(0) - 1, y: f.y(used[i]), height: f.y(0) - f.y(used[i]) }));
    }
    const path = reserved.map((v, i) => `${i ? "L" : "M"}${f.x(i)} ${f.y(v)}L${f.x(i + 1)} ${f.y(v)}`).join("");
    f.s.append(svg("path", { class: "reservedline", d: path }));
    $("reserved").replaceChildren(f.s);
  };

  // ---- budgets ----
  const units = { tokens: "tokens", input_tokens: "input tokens", output_tokens: "output tokens", requests: "requests", usd: "", concurrency: "at once" };
  const recently = 2; // minutes whose refusals count as now, the current one included
  // refusalsNow has how many requests each limit refused just now.
  const refusalsNow = (series) => new Map((series?.refusals || []).map((r) => [r.limit, sum(r.count.slice(-recently))]));
  // room is the share of a limit that is left: none where it allows nothing at all.
  const room = (l) => l.remaining / (l.capacity || l.amount || 1);
  // moods, the worst last. A limit that refuses is bad however much of it is left.
  const moods = ["", "warn", "bad"];
  const mooded = (l, refusals) => {
    const refused = refusals.get(l.limited_by) || 0;
    const left = room(l);
    const full = l.unit === "concurrency" ? left <= 0 : left <= 0.02;
    return { ...l, refused, mood: full || (refused && l.mode === "enforce") ? "bad" : left <= 0.15 ? "warn" : "" };
  };
  const worst = (limits) => Math.max(0, ...limits.map((l) => moods.indexOf(l.mood)));
  const byTrouble = (a, b) => moods.indexOf(b.mood) - moods.indexOf(a.mood);

  // standing is what is left of a limit, in words.
  const standing = (l) => (l.remaining < 0 ? `${amount(l.unit, -l.remaining)} in debt` : `${amount(l.unit, l.remaining)} ${l.unit === "concurrency" ? "free" : "left"}`);
  const meter = (l) => {
    const cap = l.capacity || l.amount || 1;
    const used = cap - l.remaining - l.open;
    const mood = l.mood;
    const per = l.per ? ` per ${l.per}` : "";
    const what = `${amount(l.unit, l.amount)} ${units[l.unit] ?? l.unit}${per}`.replace("  ", " ");
    const name = el("span", { class: "name", title: l.limited_by }, l.scope === "key" ? `${l.owner}: ${l.name}` : l.scope === "model" ? `${l.owner}: ${l.name}` : l.name, " ", el("span", {}, what));
    if (l.mode !== "enforce") name.append(el("span", { class: "shadow" }, l.mode));
    const debt = l.remaining < 0;
    const reset = l.reset_ms > 0 ? (["day", "week", "month"].includes(l.per) ? `resets in ${duration(l.reset_ms)}` : `full in ${duration(l.reset_ms)}`) : "";
    const refused = l.refused ? `${exact.format(l.refused)} refused just now` : "";
    const value = el("span", { class: "value" + (mood === "bad" ? " bad" : "") }, standing(l), refused ? el("small", {}, refused) : null, reset ? el("small", {}, reset) : null);
    const track = el("div", { class: `track ${mood}`, role: "meter", "aria-label": `${l.limited_by} used`, "aria-valuemin": 0, "aria-valuemax": cap, "aria-valuenow": Math.max(0, Math.min(cap, cap - l.remaining)) });
    track.append(bar("used", debt ? 1 : used / cap), bar("open", debt ? 0 : l.open / cap));
    return el("div", { class: "meter" }, name, value, track);
  };
  const teamLink = (team) => el("a", { href: addressOf(team) }, team);
  // folded is how many teams without trouble are shown before they are folded away.
  const folded = 8;
  const drawBudgets = (groups, refusals) => {
    const parts = (g) => [el("h3", {}, g.team ? teamLink(g.team) : "shared by all teams"), ...g.limits.map(meter)];
    const sorted = groups.map((g) => ({ team: g.team, limits: g.limits.filter((l) => l.remaining !== null).map((l) => mooded(l, refusals)).sort(byTrouble) }))
      .filter((g) => g.limits.length).sort((a, b) => worst(b.limits) - worst(a.limits));
    const calm = sorted.filter((g) => !worst(g.limits));
    const fold = calm.length > folded ? calm : [];
    const open = sorted.filter((g) => !fold.includes(g));
    $("budgets").replaceChildren(...(sorted.length ? open.flatMap(parts) : [el("p", { class: "empty" }, "No budgets to show.")]));
    $("calm").hidden = !fold.length;
    $("calmcount").textContent = `${fold.length} more, with room in every budget`;
    $("calmbudgets").replaceChildren(...fold.flatMap(parts));
    return sorted;
  };

  // ---- what is wrong now ----
  const most = 12; // entries
  const drawTrouble = (groups, providers) => {
    const entries = [];
    for (const p of providers) {
      if (p.state && p.state !== "ok") entries.push(el("li", { class: p.state === "paused" ? "warn" : "bad" }, el("b", {}, p.name), ` provider ${p.state}, ${exact.format(p.waiting)} waiting`));
    }
    const full = groups.flatMap((g) => g.limits.filter((l) => l.mood === "bad").map((l) => ({ l, team: g.team }))).sort((a, b) => b.l.refused - a.l.refused);
    for (const { l, team } of full) {
      const name = team ? el("a", { href: addressOf(team) }, l.limited_by) : el("b", {}, l.limited_by);
      entries.push(el("li", { class: "bad" }, name, ` ${standing(l)}${l.refused ? `, ${exact.format(l.refused)} refused just now` : ""}${l.mode === "enforce" ? "" : ` (${l.mode})`}`));
    }
    const rest = entries.length - most;
    if (rest > 0) entries.splice(most, rest, el("li", {}, `and ${rest} more below`));
    $("trouble").replaceChildren(...(entries.length ? entries : [el("li", { class: "good" }, "No limit is spent or refuses, and no provider rests.")]));
  };

  // ---- refusals and providers ----
  const drawRefusals = (series, team) => {
    const mine = (name) => !team || !name.startsWith("team/") || name.startsWith(`team/${team}/`);
    const rows = series.refusals.map((r) => ({ name: r.limit, hour: sum(r.count), recent: sum(r.count.slice(-10)) })).filter((r) => r.hour && mine(r.name)).sort((a, b) => b.hour - a.hour).slice(0, 12);
    const most = rows[0]?.hour || 1;
    const parts = rows.map((r) => el("div", { class: "meter" }, el("span", { class: "name", title: r.name }, r.name),
      el("span", { class: "value" }, exact.format(r.hour), el("small", {}, `${exact.format(r.recent)} in 10 min`)),
      el("div", { class: "track", "aria-hidden": "true" }, bar("refusal", r.hour / most))));
    $("refusals").replaceChildren(...(parts.length ? parts : [el("p", { class: "empty" }, "Nothing was refused by a limit.")]));
  };
  const drawProviders = (providers) => {
    const parts = [];
    for (const p of providers) {
      const state = p.state || "ok";
      parts.push(el("div", { class: "provider" }, el("b", {}, p.name), el("span", { class: `pill ${state === "ok" ? "good" : state === "broken" ? "bad" : "warn"}` }, state),
        el("small", {}, `${exact.format(p.inflight)} in flight, ${exact.format(p.waiting)} waiting`)));
      for (const h of p.headroom || []) {
        const share = h.limit > 0 ? h.remaining / h.limit : 1;
        const mood = share <= 0.05 ? "bad" : share <= 0.2 ? "warn" : "";
        parts.push(el("div", { class: "meter" }, el("span", { class: "name" }, h.unit), el("span", { class: "value" + (mood === "bad" ? " bad" : "") }, brief(h.remaining), h.limit > 0 ? el("small", {}, `of ${brief(h.limit)}`) : null),
          el("div", { class: `track ${mood}`, role: "meter", "aria-label": `${p.name} ${h.unit} left`, "aria-valuemin": 0, "aria-valuemax": h.limit, "aria-valuenow": Math.max(0, h.remaining) }, bar("room", share))));
      }
    }
    $("providers").replaceChildren(...(parts.length ? parts : [el("p", { class: "empty" }, "No providers to show.")]));
  };

  // drawEstimates shows how much of the estimated input is used, with a bar that
  // is full where all is.
  const drawEstimates = (models) => {
    const parts = models.map((m) => {
      const off = m.answers && (m.ratio > 1.1 || m.ratio < 0.7);
      const took = m.seconds < 0.001 ? `${exact.format(Math.round(m.seconds * 1e6))} µs` : `${exact.format(Math.round(m.seconds * 1e3))} ms`;
      return el("div", { class: "meter" }, el("span", { class: "name" }, m.model),
        el("span", { class: "value" }, m.answers ? `${percent.format(m.ratio)} used` : "–", el("small", {}, `${brief(m.answers)} answers, ${took} each`)),
        el("div", { class: `track ${off ? "warn" : ""}`, "aria-hidden": "true" }, bar("used", m.ratio)));
    });
    $("estimates").replaceChildren(...(parts.length ? parts : [el("p", { class: "empty" }, "Nothing has been estimated.")]));
  };

  // ---- the page ----
  const pill = (id, text, mood) => {
    const e = $(id);
    e.hidden = !text;
    if (e.textContent !== text) e.textContent = text; // a status is read aloud when it changes
    e.className = `pill ${mood}`;
  };
  // tile shows the last full minute, and how the current one goes.
  const tile = (id, perMinute) => {
    $(id).textContent = brief(perMinute.at(-2) || 0);
    $(`${id}now`).textContent = `this minute so far: ${brief(perMinute.at(-1) || 0)}`;
  };
  const teamOptions = (data) => {
    const names = new Set([...data.budgets.map((g) => g.team), ...(data.series?.teams || []).map((t) => t.team)].filter(Boolean));
    const select = $("team");
    const list = [...names].sort();
    if (list.join("\n") === [...select.options].slice(1).map((o) => o.value).join("\n")) return;
    const chosen = select.value || addressed();
    select.replaceChildren(el("option", { value: "" }, "all teams"), ...list.map((n) => el("option", { value: n }, n)));
    select.value = names.has(chosen) ? chosen : "";
  };
  const draw = () => {
    if (!last) return;
    const team = $("team").value;
    const { live, series } = last;
    pill("status", last.status, last.status === "ok" ? "good" : last.status === "degraded" ? "warn" : "bad");
    pill("enforcement", last.enforcement ? `limits: ${last.enforcement}` : "", last.enforcement === "enforce" ? "quiet" : "warn");
    pill("instance", live.instance || "", "quiet");
    for (const list of ["notices", "problems"]) {
      $(list).hidden = !last[list];
      $(list).replaceChildren(...(last[list] || []).map((text) => el("li", {}, text)));
    }
    $("inflight").textContent = exact.format(live.inflight);
    $("open").textContent = `${exact.format(live.open)} reservations open here`;
    $("waiting").textContent = exact.format(live.waiting + sum(live.providers.map((p) => p.waiting)));
    const mine = last.budgets.filter((g) => !team || !g.team || g.team === team);
    drawTrouble(drawBudgets(mine, refusalsNow(series)), live.providers);
    drawProviders(live.providers);
    drawEstimates(live.estimates || []);
    if (!series) return;
    const tokens = column(series, "tokens", team), reserved = column(series, "reserved", team);
    tile("tpm", tokens);
    tile("rpm", column(series, "requests", team));
    const wanted = sum(reserved.slice(-10));
    $("ratio").textContent = wanted ? percent.format(sum(tokens.slice(-10)) / wanted) : "–";
    const refused = sum(series.refusals.filter((r) => !team || !r.limit.startsWith("team/") || r.limit.startsWith(`team/${team}/`)).map((r) => sum(r.count.slice(-10))));
    $("refused").textContent = brief(refused);
    $("refused").className = refused ? "bad" : "";
    drawChart(series, team);
    drawReserved(series, team);
    drawRefusals(series, team);
  };
  $("team").addEventListener("change", () => {
    history.replaceState(null, "", addressOf($("team").value));
    draw();
  });
  $("table").parentElement.parentElement.addEventListener("toggle", draw);
  addEventListener("resize", draw);

  // ---- explain ----
  $("explain").addEventListener("submit", async (e) => {
    e.preventDefault();
    const [key_id, path, body] = ["key", "path", "body"].map((id) => $(id).value);
    $("verdict").textContent = "…";
    try {
      const res = await fetch("/dashboard/explain", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ key_id, path, body }), signal: AbortSignal.timeout(8000) });
      $("verdict").textContent = JSON.stringify(await res.json(), null, 2);
    } catch (err) {
      $("verdict").textContent = `There was no answer: ${err.message}`;
    }
  });

  const tellAge = () => {
    const s = Math.round((Date.now() - heard) / 1000);
    $("when").textContent = !heard ? "" : s < 4 ? `live · ${new Date(heard).toLocaleTimeString([], { hour12: false })}` : `${s} s old`;
  };
  const poll = async () => {
    try {
      const res = await fetch("/dashboard/live", { headers: { Accept: "application/json" }, cache: "no-store", signal: AbortSignal.timeout(8000) });
      if (res.status === 401) { location.reload(); return; }
      if (!res.ok) throw new Error(`status ${res.status}`);
      last = await res.json();
      if (last.series) for (const list of ["teams", "refusals"]) last.series[list] ??= [];
      heard = Date.now();
      teamOptions(last);
      draw();
    } catch (err) {
      console.error(err); // an answer that cannot be drawn looks like none
      pill("status", "no answer", "bad");
    }
    setTimeout(poll, document.hidden ? 4 * every : every);
  };
  setInterval(tellAge, 500);
  document.addEventListener("visibilitychange", tellAge);
  poll();
})();
