-- state.lua: how a counter is stored and read.
-- The same in Go: budget/state.go; rules.go here writes RULES.
--
-- A counter is stored as STATE; its five last numbers, and what may follow them,
-- are its algorithm's. Rules travel as RULES; so are their three last numbers.

-- dispatch reset(c, now)
-- dispatch load(c, s, v, w, x, y, z)
-- dispatch dump(c)

-- life is how long the counter must be kept, in ms.
local function life(c, now)
  local l = max(reset(c, now), c.paused - now)
  if c.claimed > 0 then l = max(l, c.claim_ends - now) end
  if c.next then l = max(l, c.next - now) end
  if c.empty == 1 then l = FOREVER end
  if c.holds > 0 then l = max(l, c.deadline - now) end
  return l
end

-- decode reads a stored counter. A bucket is made in one piece of sixteen fields:
-- a table that grows is made anew.
local function decode(s)
  local k, empty, version, capacity, debt, holds, open, deadline, paused, v, w, x, y, z = unpack_struct(STATE, s)
  local c = {kind = k, empty = empty, version = version, capacity = capacity, debt = debt, holds = holds, open = open,
    deadline = deadline, paused = paused, num = v, den = w, bank = x, level = y, at = z, claimed = 0, changed = false}
  load(c, s, v, w, x, y, z)
  return c
end

local function encode(c)
  local v, w, x, y, z, more = dump(c)
  local s = pack(STATE, c.kind, c.empty, c.version, c.capacity, c.debt, c.holds, c.open, c.deadline, c.paused, v, w, x, y, z)
  return more and s .. more or s
end

-- rules_at reads the i-th rules of a string of them.
local function rules_at(s, i)
  local kind, empty, version, capacity, debt, x, y, z = unpack_struct(RULES, s, (i - 1) * RULES_SIZE + 1)
  return {kind = kind, empty = empty, version = version, capacity = capacity, debt = debt, x = x, y = y, z = z}
end

-- open_counter is the counter that is stored as s, or a new one, at now, under the
-- i-th of the rules if they are newer; those of a calendar have the period, too.
local function open_counter(s, rules, i, now)
  if not s then return new(rules_at(rules, i), now) end
  local c = decode(s)
  if rules and (c.kind == CALENDAR or unpack_struct('<d', rules, (i - 1) * RULES_SIZE + 3) ~= c.version) then
    bring(c, rules_at(rules, i), now)
  else
    bring(c, nil, now)
  end
  return c
end

-- save writes a counter that changed.
local function save(key, c, now)
  if c.changed then call('SET', key, encode(c), 'PX', int(life(c, now) + KEEP)) end
end
