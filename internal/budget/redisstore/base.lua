-- base.lua: what every script begins with.
--
-- All numbers are integers below 2^53; budget.Validate proves it. They go into
-- commands through int(), never through tostring or '..'.
--
-- Locals in capitals are constants: script.go writes them where they are used.

local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local pack, unpack_struct, call = struct.pack, struct.unpack, redis.call

local BUCKET, PACING, CALENDAR, WINDOW, LOG, SLOTS = 1, 2, 3, 4, 5, 6
local GRANTED, EXCEEDED, NO_SLOT, HELD_BACK, SPENT, NEVER_FITS = 0, 1, 2, 3, 4, 5
local STATE, STATE_SIZE = '<BBdddddddddddd', 98
local RULES, RULES_SIZE = '<BBdddddd', 50
local DESCRIBED = 'Bdddddd'
local CLOCK_SLACK = 5000
local MAX_EXACT = 9007199254740991 -- 2^53 - 1
local FOREVER = 400 * 24 * 3600 * 1000
local CLAIM_GRACE, LONGEST_CLAIM = 5000, 3600 * 1000
local KEEP = 60000 -- how long a counter is kept beyond what it needs, ms

local function int(n) return string.format('%.0f', n) end

local function ceildiv(a, b) return floor((a + b - 1) / b) end

-- clock is the store's time in ms; a test may name another.
local function clock(given)
  given = tonumber(given)
  if given > 0 then return given end
  local t = call('TIME')
  return t[1] * 1000 + floor(t[2] / 1000)
end
