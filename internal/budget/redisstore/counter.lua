-- counter.lua: a counter of any kind: made, and brought to now.
-- The same in Go: budget/counter.go.

-- dispatch fresh(c, r, now)
-- dispatch advance(c, own, now)
-- dispatch adopt(c, r)
-- dispatch use(c, n, now)
-- dispatch remaining(c, now)

-- new is a counter that nobody has used.
local function new(r, now)
  local c = {kind = r.kind, empty = r.empty, version = r.version, capacity = r.capacity, debt = r.debt,
    holds = 0, open = 0, deadline = 0, paused = 0, claimed = 0, changed = r.empty == 1}
  fresh(c, r, now)
  if r.empty == 1 then use(c, r.capacity, now) end
  return c
end

-- switch puts the counter under newer rules: what was used stays used.
local function switch(c, r, now)
  if r.kind == c.kind then
    adopt(c, r)
    c.version, c.capacity, c.debt, c.empty = r.version, r.capacity, r.debt, r.empty
  else
    local used = c.capacity - remaining(c, now)
    local made = new(r, now)
    made.holds, made.deadline, made.paused = c.holds, c.deadline, c.paused
    for k in pairs(c) do c[k] = nil end
    for k, v in pairs(made) do c[k] = v end
    if r.empty == 1 then used = used - r.capacity end
    use(c, min(max(used, 0), r.capacity + r.debt), now)
  end
  c.changed = true
end

-- bring brings the counter to now and, if r is newer, under r. r may be nil.
local function bring(c, r, now)
  advance(c, r and r.version >= c.version and r.kind == c.kind and r or nil, now)
  if r and r.version > c.version then switch(c, r, now) end
end
