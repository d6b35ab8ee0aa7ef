-- ending.lua: how reservations end, prepended to settle.lua, report.lua and
-- reclaim.lua.
-- The same rules are in memstore/settle.go.

local counters = {} -- by key without the base; false: missing, which is full
local gone = {}     -- by epoch: ids that are open no more

-- fetch reads the counters that the records need, in one call.
local function fetch(base, records, now)
  local keys, names = {}, {}
  for _, rec in pairs(records) do
    for i = 0, (rec.n - 1) * WIDTH, WIDTH do
      local name = rec[i + KEY]
      if rec[i + TAKEN] >= 0 and counters[name] == nil then
        counters[name] = false
        keys[#keys + 1] = base .. ':c:' .. name
        names[#names + 1] = name
      end
    end
  end
  for first = 1, #keys, 1000 do
    local stored = call('MGET', unpack(keys, first, min(first + 999, #keys)))
    for i, s in ipairs(stored) do
      if s then counters[names[first + i - 1]] = open_counter(s, nil, 0, now) end
    end
  end
end

-- recall reads the records that KEYS names behind the base, by key, and their
-- counters; and which of their epochs are fenced.
local function recall(base, now)
  local stored = call('MGET', unpack(KEYS, 2))
  local records, fenced = {}, {}
  for i = 1, #stored do
    if stored[i] and not records[KEYS[i + 1]] then
      local rec = decode_record(stored[i])
      records[KEYS[i + 1]] = rec
      if rec.epoch and fenced[rec.epoch] == nil then
        fenced[rec.epoch] = call('ZSCORE', base .. ':fenced', rec.epoch)
      end
    end
  end
  fetch(base, records, now)
  return records, fenced
end

-- crash_charge is what the part at i costs if its gateway died.
local function crash_charge(rec, i)
  if rec.crash == 1 then return max(rec[i + TAKEN], rec[i + NOTED]) end
  if rec.crash == 2 then return 0 end
  return max(rec[i + NOTED], min(rec[i + CRASH], rec[i + TAKEN]))
end

-- finish settles every part of an open record with used(rec, i) and puts status
-- on it. It returns what was not charged.
local function finish(rec, status, used, now)
  local unbooked = 0
  for i = 0, (rec.n - 1) * WIDTH, WIDTH do
    local taken = rec[i + TAKEN]
    if taken >= 0 then
      local n, c = used(rec, i), counters[rec[i + KEY]]
      if c then unbooked = unbooked + settle(c, taken, rec[i + NOTED], rec[i + MARK], n, now) end
      rec[i + NOTED] = n
    end
  end
  rec.status, rec.changed = status, true
  local ids = gone[rec.epoch] or {}
  ids[#ids + 1] = rec.id
  gone[rec.epoch] = ids
  return unbooked
end

local function encode_record(rec)
  if rec.status == SETTLED then return pack('<B', SETTLED) end
  local out = {pack(HEAD, rec.status, #rec.epoch, rec.epoch, rec.created, rec.deadline, rec.not_after, rec.crash, rec.lines, rec.n)}
  for i = 0, (rec.n - 1) * WIDTH, WIDTH do
    out[#out + 1] = pack('<' .. PART, #rec[i + KEY], rec[i + KEY], rec[i + LINE], rec[i + OUTCOME], rec[i + ASKED], rec[i + TAKEN], rec[i + NOTED], rec[i + MARK])
  end
  if rec.reported and rec.status == OPEN then
    for i = 0, (rec.n - 1) * WIDTH, WIDTH do out[#out + 1] = pack('<d', rec[i + CRASH]) end
  end
  return table.concat(out)
end

-- write stores what finish and the like changed; nothing after its first
-- call can fail.
local function write(base, records, now)
  -- The index first, as in reserve.lua.
  for epoch, ids in pairs(gone) do
    for first = 1, #ids, 1000 do
      call('ZREM', base .. ':open:' .. epoch, unpack(ids, first, min(first + 999, #ids)))
    end
  end
  for name, c in pairs(counters) do
    if c then save(base .. ':c:' .. name, c, now) end
  end
  for key, rec in pairs(records) do
    if rec.changed then
      local keep = SETTLED_FOR
      if rec.status == RECLAIMED then
        keep = RECLAIMED_FOR
      elseif rec.status == OPEN then
        keep = max(0, rec.deadline - now) + RECORD_KEEP
      elseif (rec.not_after or 0) > 0 then
        keep = min(keep, rec.not_after - now)
      end
      if keep < 0 then
        call('DEL', key)
      else
        call('SET', key, encode_record(rec), 'PX', int(keep + 1))
      end
    end
  end
end
