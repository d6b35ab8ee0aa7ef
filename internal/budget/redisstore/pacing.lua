-- pacing.lua: paces of calls to a provider. The same in Go: budget/pacing.go.

PACING = BUCKET

function PACING.judge(c, cost, now)
  local need = min(cost, c.capacity) * c.den
  if cost == 0 or c.level >= need then return GRANTED, 0 end
  return EXCEEDED, until_level(c, need, now)
end
