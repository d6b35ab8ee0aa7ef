package redisstore

import (
	"maps"
	"math/big"
	"slices"
	"time"

	"llmgw/internal/budget"
)

// model is what a counter must do, written anew in exact fractions and lists of
// events, without the tricks that the real arithmetic needs.
type model interface {
	advance(now int64)
	judge(cost, now int64) (budget.Outcome, int64)
	take(cost, now int64) (taken, mark int64)
	refund(mark, n, now int64)
	overrun(n, now int64) (unbooked int64)
	remaining(now int64) int64
	adopt(l *budget.Limit, now int64)
	// current reports whether what was taken at mark still counts as open.
	current(mark int64) bool
}

// modelled is a model with what all of them have in common.
type modelled struct {
	model
	limit  *budget.Limit
	open   int64
	paused int64
}

func newModel(l *budget.Limit, now int64) *modelled {
	m := &modelled{limit: l}
	switch l.Algorithm {
	case budget.TokenBucket, budget.Pacing:
		b := &bucketModel{m: m, at: now, level: rat(l.Burst)}
		if l.StartEmpty {
			b.level = rat(0)
		}
		m.model = b
	case budget.CalendarUsage:
		c := &calendarModel{m: m}
		c.start, c.end = month(now)
		c.period = c.start
		m.model = c
	case budget.SlidingWindow:
		m.model = &windowModel{m: m, start: now - now%perMS(l), used: map[int64]int64{}}
	case budget.SlidingLog:
		m.model = &logModel{m: m, newest: now}
	case budget.Slots:
		m.model = &slotModel{m: m}
	}
	return m
}

// clone is a copy that goes its own way.
func (m *modelled) clone() *modelled {
	n := *m
	switch of := m.model.(type) {
	case *bucketModel:
		c := *of
		c.m, n.model = &n, &c
	case *calendarModel:
		c := *of
		c.m, n.model = &n, &c
	case *windowModel:
		c := *of
		c.m, c.used, n.model = &n, maps.Clone(of.used), &c
	case *logModel:
		c := *of
		c.m, c.units, n.model = &n, slices.Clone(of.units), &c
	case *slotModel:
		n.model = &slotModel{m: &n}
	}
	return &n
}

func (m *modelled) ask(cost, now int64) (budget.Outcome, int64) {
	out, wait := m.judge(cost, now)
	if m.paused > now && out != budget.NeverFits {
		if out == budget.Granted {
			out = budget.Exceeded
		}
		wait = max(wait, m.paused-now)
	}
	return out, wait
}

// hold is what a reservation has on one modelled counter.
type modelHold struct{ taken, noted, crash, mark int64 }

func (m *modelled) hold(cost, now int64) modelHold {
	taken, mark := m.take(cost, now)
	m.open += taken
	return modelHold{taken: taken, mark: mark}
}

func (m *modelled) note(h *modelHold, used int64) {
	if used <= h.noted {
		return
	}
	if m.limit.Algorithm != budget.Slots && m.current(h.mark) {
		m.open -= min(used, h.taken) - min(h.noted, h.taken)
	}
	h.noted = used
}

func (m *modelled) shrink(h *modelHold, keep, now int64) {
	keep = max(keep, h.noted)
	if keep >= h.taken {
		return
	}
	m.free(h.mark, h.taken-keep)
	m.refund(h.mark, h.taken-keep, now)
	h.taken = keep
}

// free takes n that is no longer open off the counter, if its period still counts.
func (m *modelled) free(mark, n int64) {
	if !m.current(mark) {
		n = 0
	}
	m.open = max(0, m.open-n)
}

// lost is what a hold costs when its gateway died.
func (h modelHold) lost(policy budget.CrashCharge) int64 {
	told := h.noted
	if told < h.crash {
		told = h.crash
	}
	switch {
	case policy == budget.ChargeNone:
		return 0
	case policy == budget.ChargeFull, told > h.taken:
		return max(h.taken, h.noted)
	default:
		return told
	}
}

func (m *modelled) settle(h modelHold, used, now int64) int64 {
	if m.limit.Algorithm == budget.Slots {
		m.open -= h.taken
		return 0
	}
	m.free(h.mark, h.taken-min(h.noted, h.taken))
	if used >= h.taken {
		return m.overrun(used-h.taken, now)
	}
	m.refund(h.mark, h.taken-used, now)
	return 0
}

func (m *modelled) correct(atMost, pause, now int64) {
	if left := m.remaining(now); atMost >= 0 && atMost < left {
		m.overrun(left-atMost, now)
	}
	if pause > 0 {
		m.paused = max(m.paused, now+pause)
	}
}

func rat(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func floorRat(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }

func ceilRat(r *big.Rat) int64 { return -floorRat(new(big.Rat).Neg(r)) }

func perMS(l *budget.Limit) int64 {
	return map[budget.Period]int64{budget.Second: 1000, budget.Minute: 60_000, budget.Hour: 3_600_000}[l.Period]
}

// bucketModel is a level in fractions.
type bucketModel struct {
	m     *modelled
	level *big.Rat
	at    int64
	claim *claimModel
}

// claimModel is a refused large request for which half of the refill is kept.
type claimModel struct{ cost, since, ends int64 }

// claimed notes that cost was refused, and reports whether it claims.
func (m *modelled) claimed(cost, wait, now int64) bool {
	b, ok := m.model.(*bucketModel)
	if !ok || m.limit.Algorithm == budget.Pacing || rat(cost).Cmp(big.NewRat(m.limit.Burst, 4)) <= 0 {
		return false
	}
	since := b.at
	if b.claim != nil {
		if cost < b.claim.cost {
			return false
		}
		since = b.claim.since
	}
	b.claim = &claimModel{cost, since, now + min(wait, 3_600_000) + 5000}
	return true
}

// free is what a request for cost may take at a moment if nothing else is taken.
func (b *bucketModel) free(cost, now int64) *big.Rat {
	grown := new(big.Rat).Mul(b.rate(), rat(max(0, now-b.at)))
	level := grown.Add(grown, b.level)
	if b.claim == nil || cost >= b.claim.cost || b.level.Sign() <= 0 {
		return level
	}
	aside := new(big.Rat).Mul(b.rate(), rat((b.at-b.claim.since)/2))
	for _, bound := range []*big.Rat{rat(b.claim.cost), b.level} {
		if aside.Cmp(bound) > 0 {
			aside = bound
		}
	}
	return level.Sub(level, aside)
}

// untilFree finds the moment at which a bound cost fits by trying: half of what
// comes from now on is set aside, and all is free when the claim ends.
func (b *bucketModel) untilFree(cost, now int64) int64 {
	fits := func(after int64) bool {
		at := max(b.at, now+after)
		halves := (at-b.claim.since)/2 - (b.at-b.claim.since)/2
		free := b.free(cost, at)
		return free.Sub(free, new(big.Rat).Mul(b.rate(), rat(halves))).Cmp(rat(cost)) >= 0
	}
	whole := int64(0)
	if missing := new(big.Rat).Sub(rat(cost), b.level); missing.Sign() > 0 {
		whole = ceilRat(missing.Quo(missing, b.rate())) + max(0, b.at-now)
	}
	low, high := int64(0), max(b.claim.ends-now, whole)
	if !fits(high) {
		return high
	}
	for high-low > 1 {
		if middle := low + (high-low)/2; fits(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

func (b *bucketModel) rate() *big.Rat { return big.NewRat(b.m.limit.Amount, perMS(b.m.limit)) }

func (b *bucketModel) bank() int64 {
	if b.m.limit.Algorithm == budget.Pacing {
		return 0
	}
	return b.m.limit.Bank
}

func (b *bucketModel) advance(now int64) {
	if now < b.at {
		if b.at-now > 5000 {
			b.at, b.claim = now, nil
		}
		b.endClaim(now)
		return
	}
	defer b.endClaim(now)
	full := rat(b.m.limit.Burst)
	if k := b.bank(); k > 0 {
		if held := new(big.Rat).Sub(rat(k*b.m.limit.Burst), rat(b.m.open)); held.Cmp(full) < 0 {
			full = held
		}
	}
	grown := new(big.Rat).Add(b.level, new(big.Rat).Mul(b.rate(), rat(now-b.at)))
	b.at = now
	if b.level.Cmp(full) >= 0 || full.Sign() < 0 {
		return
	}
	if grown.Cmp(full) > 0 {
		grown = full
	}
	b.level = grown
}

func (b *bucketModel) endClaim(now int64) {
	if b.claim != nil && now >= b.claim.ends {
		b.claim = nil
	}
}

func (b *bucketModel) judge(cost, now int64) (budget.Outcome, int64) {
	l, need := b.m.limit, cost
	if l.Algorithm == budget.Pacing {
		need = min(cost, l.Burst)
	} else if cost > l.Burst {
		return budget.NeverFits, 0
	}
	if cost == 0 || b.free(cost, b.at).Cmp(rat(need)) >= 0 {
		return budget.Granted, 0
	}
	var wait int64
	if b.claim != nil && cost < b.claim.cost {
		wait = b.untilFree(cost, now)
	} else {
		missing := new(big.Rat).Sub(rat(need), b.level)
		wait = ceilRat(missing.Quo(missing, b.rate())) + max(0, b.at-now)
	}
	if k := b.bank(); k > 0 && k*l.Burst-b.m.open < cost {
		return budget.HeldBack, wait
	}
	return budget.Exceeded, wait
}

func (b *bucketModel) take(cost, now int64) (int64, int64) {
	if b.claim != nil && cost >= b.claim.cost {
		b.claim = nil
	}
	return cost - b.overrun(cost, now), 0
}

func (b *bucketModel) overrun(n, _ int64) int64 {
	room := floorRat(new(big.Rat).Add(b.level, rat(b.m.limit.MaxDebt)))
	booked := min(n, room)
	b.level = new(big.Rat).Sub(b.level, rat(booked))
	return n - booked
}

func (b *bucketModel) refund(_, n, _ int64) {
	back := new(big.Rat).Add(b.level, rat(n))
	if full := rat(b.m.limit.Burst); back.Cmp(full) > 0 {
		back = full
	}
	b.level = back
}

func (b *bucketModel) remaining(int64) int64 { return floorRat(b.level) }

func (b *bucketModel) adopt(l *budget.Limit, _ int64) {
	b.claim = nil
	level := new(big.Rat).Add(b.level, rat(l.Burst-b.m.limit.Burst))
	if level.Cmp(rat(l.Burst)) > 0 {
		level = rat(l.Burst)
	}
	if level.Cmp(rat(-l.MaxDebt)) < 0 {
		level = rat(-l.MaxDebt)
	}
	// What the new rate cannot express is dropped.
	step := big.NewRat(l.Amount, perMS(l)).Denom()
	scaled := new(big.Rat).Mul(level, new(big.Rat).SetInt(step))
	b.level = big.NewRat(floorRat(scaled), step.Int64())
	b.m.limit = l
}

func (b *bucketModel) current(int64) bool { return true }

// calendarModel is what was used in a month.
type calendarModel struct {
	m                  *modelled
	period, start, end int64
	used               int64
	before             int64 // used in the period before
	beforePeriod       int64
}

func month(now int64) (start, end int64) {
	y, m, _ := time.UnixMilli(now).UTC().Date()
	return time.Date(y, m, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
}

func (c *calendarModel) advance(now int64) {
	if now < c.start && c.start-now <= 5000 {
		return
	}
	over := now >= c.end
	c.start, c.end = month(now)
	if over {
		c.beforePeriod, c.before = c.period, c.used
		if c.period >= c.start { // used while the clock was wrong
			c.before = 0
		}
		c.period, c.used, c.m.open = c.start, 0, 0
		return
	}
	if c.start <= c.beforePeriod && c.before > 0 { // the clock is back where that was used
		c.period, c.used = c.beforePeriod, min(c.used+c.before, c.m.limit.Amount+c.m.limit.MaxDebt)
		c.before = 0
	}
}

func (c *calendarModel) judge(cost, now int64) (budget.Outcome, int64) {
	switch {
	case cost > c.m.limit.Amount:
		return budget.NeverFits, 0
	case cost == 0 || c.used+cost <= c.m.limit.Amount:
		return budget.Granted, 0
	default:
		return budget.Spent, c.end - now
	}
}

func (c *calendarModel) take(cost, now int64) (int64, int64) {
	return cost - c.overrun(cost, now), c.period
}

func (c *calendarModel) overrun(n, _ int64) int64 {
	booked := max(0, min(n, c.m.limit.Amount+c.m.limit.MaxDebt-c.used))
	c.used += booked
	return n - booked
}

func (c *calendarModel) refund(mark, n, _ int64) {
	if mark == c.period {
		c.used -= n
	}
	c.used = max(0, c.used)
}
func (c *calendarModel) remaining(int64) int64   { return c.m.limit.Amount - c.used }
func (c *calendarModel) current(mark int64) bool { return mark == c.period }
func (c *calendarModel) adopt(l *budget.Limit, _ int64) {
	c.used = min(c.used, l.Amount+l.MaxDebt)
	c.before = min(c.before, l.Amount+l.MaxDebt)
	c.m.limit = l
}

// windowModel has the sum of each window, and finds a wait by trying moments.
type windowModel struct {
	m     *modelled
	start int64
	used  map[int64]int64 // by the window's start
}

func (w *windowModel) advance(now int64) {
	per := perMS(w.m.limit)
	start := now - now%per
	if now < w.start-5000 {
		w.used = map[int64]int64{start: w.used[w.start], start - per: w.used[w.start-per]}
		w.start = start
		return
	}
	w.start = max(w.start, start)
	for at := range w.used {
		if at < w.start-per {
			delete(w.used, at)
		}
	}
}

// counts is what is used at a moment, if nothing more is.
func (w *windowModel) counts(now int64) int64 {
	per := perMS(w.m.limit)
	now = max(now, w.start)
	start := now - now%per
	return w.used[start] + floorRat(new(big.Rat).Mul(rat(w.used[start-per]), big.NewRat(per-(now-start), per)))
}

func (w *windowModel) fits(cost, now int64) bool { return w.counts(now)+cost <= w.m.limit.Amount }

func (w *windowModel) judge(cost, now int64) (budget.Outcome, int64) {
	switch {
	case cost > w.m.limit.Amount:
		return budget.NeverFits, 0
	case cost == 0 || w.fits(cost, now):
		return budget.Granted, 0
	}
	low, high := now, w.start+2*perMS(w.m.limit) // refused, granted
	for high-low > 1 {
		if middle := low + (high-low)/2; w.fits(cost, middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return budget.Exceeded, high - now
}

func (w *windowModel) take(cost, now int64) (int64, int64) {
	return cost - w.overrun(cost, now), w.start
}

func (w *windowModel) overrun(n, _ int64) int64 {
	booked := max(0, min(n, w.m.limit.Amount+w.m.limit.MaxDebt-w.used[w.start]))
	w.used[w.start] += booked
	return n - booked
}

func (w *windowModel) refund(mark, n, _ int64) {
	if _, ok := w.used[mark]; ok {
		w.used[mark] = max(0, w.used[mark]-n)
	}
}

func (w *windowModel) remaining(now int64) int64 { return w.m.limit.Amount - w.counts(now) }

func (w *windowModel) adopt(l *budget.Limit, _ int64) {
	for at := range w.used {
		w.used[at] = min(w.used[at], l.Amount+l.MaxDebt)
	}
	w.m.limit = l
}

func (w *windowModel) current(int64) bool { return true }

// logModel lists what was used, unit by unit.
type logModel struct {
	m      *modelled
	newest int64
	units  []int64 // the moment of each
}

func (g *logModel) advance(now int64) {
	if now < g.newest-5000 {
		for i := range g.units {
			g.units[i] = min(g.units[i], now)
		}
		g.newest = now
	}
	var kept []int64
	for _, at := range g.units {
		if at+perMS(g.m.limit) > now {
			kept = append(kept, at)
		}
	}
	g.units, g.newest = kept, max(g.newest, now)
}

func (g *logModel) judge(cost, now int64) (budget.Outcome, int64) {
	switch {
	case cost > g.m.limit.Amount:
		return budget.NeverFits, 0
	case cost == 0 || int64(len(g.units))+cost <= g.m.limit.Amount:
		return budget.Granted, 0
	}
	leave := int64(len(g.units)) + cost - g.m.limit.Amount // so many must have left
	return budget.Exceeded, max(0, g.units[leave-1]+perMS(g.m.limit)-now)
}

func (g *logModel) take(cost, now int64) (int64, int64) { return cost - g.overrun(cost, now), g.newest }

func (g *logModel) overrun(n, _ int64) int64 {
	booked := max(0, min(n, g.m.limit.Amount+g.m.limit.MaxDebt-int64(len(g.units))))
	for range booked {
		g.units = append(g.units, g.newest)
	}
	return n - booked
}

func (g *logModel) refund(mark, n, _ int64) {
	var kept []int64
	for _, at := range g.units {
		if at == mark && n > 0 {
			n--
			continue
		}
		kept = append(kept, at)
	}
	g.units = kept
}

func (g *logModel) remaining(int64) int64          { return g.m.limit.Amount - int64(len(g.units)) }
func (g *logModel) adopt(l *budget.Limit, _ int64) { g.m.limit = l }
func (g *logModel) current(int64) bool             { return true }

// slotModel needs nothing but what is open.
type slotModel struct{ m *modelled }

func (s *slotModel) advance(int64) {}
func (s *slotModel) judge(n, _ int64) (budget.Outcome, int64) {
	switch {
	case n > s.m.limit.Amount:
		return budget.NeverFits, 0
	case s.m.open+n > s.m.limit.Amount:
		return budget.NoSlot, 0
	default:
		return budget.Granted, 0
	}
}
func (s *slotModel) take(cost, _ int64) (int64, int64) { return cost, 0 }
func (s *slotModel) refund(_, _, _ int64)              {}
func (s *slotModel) overrun(_, _ int64) int64          { return 0 }
func (s *slotModel) remaining(int64) int64             { return max(0, s.m.limit.Amount-s.m.open) }
func (s *slotModel) adopt(l *budget.Limit, _ int64)    { s.m.limit = l }
func (s *slotModel) current(int64) bool                { return true }
