package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"llmgw/internal/budget"
)

// mutants are mistakes in the scripts. The oracle must find each: this tests
// the oracle.
var mutants = []struct{ name, right, wrong string }{
	{"a refund is not capped", "c.level = max(c.level, full)", "c.level = c.level + n * c.den"},
	{"a refill is not capped", "c.level = full\n", "c.level = c.level + elapsed * c.num\n"},
	{"waits are rounded down", "floor((a + b - 1) / b)", "floor(a / b)"},
	{"a debit comes before the refill", "    bring(c, nil, now)\n", "    if rules then bring(c, nil, now) end\n"},
	{"there is no bank cap", "full = min(full, c.bank * c.capacity - c.open)", "full = full"},
	{"the bank cap is one too high", "c.bank * c.capacity - c.open)", "c.bank * c.capacity - c.open + 1)"},
	{"the whole level is not granted", "c.level - aside(c, cost) >= cost * c.den", "c.level - aside(c, cost) > cost * c.den"},
	{"a refusal takes some lines", "    return\n  end\n  local deadline, owner", "  end\n  local deadline, owner"},
	{"a small request claims", "4 * cost <= c.capacity", "5 * cost <= c.capacity"},
	{"a smaller request takes a claim over", "or cost < c.claimed then return end", "then return end"},
	{"a claim begins anew with each refusal", "if c.claimed == 0 then c.claimed_at = c.at end", "c.claimed_at = c.at"},
	{"a claim has all of the refill", "floor((c.at - c.claimed_at) / 2)", "floor(c.at - c.claimed_at)"},
	{"a claim is not bounded by its amount", "if half < ceildiv(all, c.num) then all = half * c.num end", "all = half * c.num"},
	{"a claim binds the one that made it", "cost >= c.claimed or c.level <= 0", "cost > c.claimed or c.level <= 0"},
	{"a claim does not end", "now >= c.claim_ends then", "false then"},
	{"a grant does not end the claim", "if cost >= c.claimed then c.claimed = 0 end", ""},
	{"a claim outlives newer rules", "c.num, c.den, c.bank, c.claimed = r.x, r.y, r.z, 0", "c.num, c.den, c.bank = r.x, r.y, r.z"},
	{"what a claim binds waits for the whole rate", "2 * halves - 1 + (c.at - c.claimed_at) % 2", "halves"},
	{"a refusal counts as granted when only a slot is short", "enforced[i] == 1 then\n", "enforced[i] == 1 and out ~= NO_SLOT then\n"},
	{"fractions are lost", "c.level = c.level + elapsed * c.num", "c.level = c.level + floor(elapsed * c.num / c.den) * c.den"},
	{"a clock far back is not followed", "elapsed < -CLOCK_SLACK", "false"},
	{"a clock a little back is followed", "CLOCK_SLACK = 5000", "CLOCK_SLACK = 4999"},
	{"newer rules are not taken", "if r and r.version > c.version then", "if false then"},
	{"older rules are taken", "if r and r.version > c.version then", "if r and r.version >= c.version - 1 and r.capacity ~= c.capacity then"},
	{"used amounts are forgotten with newer rules", "units = units + r.capacity - c.capacity", "units = r.capacity"},
	{"an overrun is free", "if used > taken then return overrun(c, used - taken, now) end", "used = min(used, taken)"},
	{"a debt has no bound", "n = min(n, max(0, room(c)))", ""},
	{"slots are not freed", "return taken -- whatever was used of it", "return 0"},
	{"what was reported stays open", "taken - min(noted, taken)", "taken"},
	{"a crash is charged what was used alone", "max(rec[i + NOTED], min(rec[i + CRASH], rec[i + TAKEN]))", "rec[i + NOTED]"},
	{"a crash is charged more than is reserved", "min(rec[i + CRASH], rec[i + TAKEN])", "rec[i + CRASH]"},
	{"a crash is charged less than was used", "max(rec[i + NOTED], min(rec[i + CRASH], rec[i + TAKEN]))", "rec.reported and min(rec[i + CRASH], rec[i + TAKEN]) or rec[i + NOTED]"},
	{"a crash is charged in full by no policy", "if rec.crash == 1 then", "if false then"},
	{"a crash is charged though its policy is none", "if rec.crash == 2 then return 0 end", ""},
	{"what is given back stays open", "c.open = max(0, c.open - (held(c, taken, noted, mark) - held(c, keep, noted, mark)))", ""},
	{"what is given back is not refunded", "  refund(c, mark, taken - keep)\n", ""},
	{"more than is free is given back", "keep = max(keep, noted)\n  if keep >= taken", "if keep >= taken"},
	{"a report raises what is reserved", "if keep >= taken then return taken end", ""},
	{"the last window does not fade", "c.window - max(0, now - c.start)", "c.window"},
	{"the last window is forgotten", "c.start, c.prev, c.used = start, c.used, 0", "c.start, c.prev, c.used = start, 0, 0"},
	{"a log's entry counts a millisecond longer", "log[n + 1] + c.window <= now", "log[n + 1] + c.window < now"},
	{"a period's end does not refill", "    c.mark, c.used, c.open = c.start, 0, 0\n", ""},
	{"a clock that steps back forgets what was used before", "c.prev_mark, min(c.prev + c.used, c.capacity + c.debt)", "c.prev_mark, c.used"},
	{"a refund goes into the wrong period", "if mark == c.mark then c.used = max(0, c.used - n) end", "c.used = max(0, c.used - n)"},
	{"pacing waits for the whole cost", "local need = min(cost, c.capacity) * c.den", "local need = cost * c.den"},
	{"pacing grants before it is full", "local need = min(cost, c.capacity) * c.den", "local need = min(cost, 1) * c.den"},
	{"a pause is not kept", "if c.paused > now and", "if false and"},
	{"a correction raises", "at_most >= 0 and at_most < left", "at_most >= 0"},
	{"a shadow refusal is charged", "if outcome[i] == GRANTED or force == 1 then", "if true then"},
	{"numbers are written with 14 digits", "return string.format('%.0f', n)", "return tostring(n)"},
}

func TestTheOracleFindsEveryMistake(t *testing.T) {
	if testing.Short() {
		t.Skip("the mistakes are in Lua: a detector of races sees nothing of them, and takes long")
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			p, ok := mutated(m.right, m.wrong)
			if !ok {
				t.Fatalf("no script has %q", m.right)
			}
			for seed := range int64(5) { // rare ones hide from a few thousand steps
				if runOracle(t, p, 20_000, seed+1) != nil {
					return
				}
			}
			t.Error("nothing was found")
		})
	}
}

// mutated are the scripts with a mistake.
func mutated(right, wrong string) (p scripts, found bool) {
	p = newScripts()
	for _, s := range []*script{&p.reserve, &p.settle, &p.report, &p.read, &p.correct, &p.beat, &p.fence, &p.reclaim, &p.list} {
		if strings.Contains(s.source, right) {
			*s, found = scriptOf(strings.ReplaceAll(s.source, right, wrong)), true
		}
	}
	return p, found
}

func TestTheLifecycleCheckFindsEveryMistake(t *testing.T) {
	if err := checkLifecycle(t, newScripts()); err != nil {
		t.Fatalf("without a mistake: %v", err)
	}
	for _, m := range []struct{ name, right, wrong string }{
		{"there is no fence", "call('ZADD', base .. ':fenced', int(now), epoch)", ""},
		{"reserves ignore the fence", "if fenced[epoch] then", "if false then"},
		{"reclaims leave no tombstone", "if keep < 0 then", "if keep < 0 or rec.status == RECLAIMED then"},
		{"a settled id may be reserved again", "known and known.status ~= OPEN", "known and known.status == RECLAIMED"},
		{"a cancel of an unknown id leaves no tombstone", "records[KEYS[i]] = {status = SETTLED, changed = true}", ""},
		{"deadlines are ignored", "not_after > 0 and now > not_after", "false"},
		{"a repeat is charged again", "status = same(known) and REPEATED or CONFLICT", "status = DECIDED"},
		{"other amounts count as a repeat", "status = same(known) and REPEATED or CONFLICT", "status = REPEATED"},
		{"a second settle refunds again", "if rec.status == OPEN then\n", "if rec.status ~= RECLAIMED then\n"},
		{"a late settle is charged twice", "rec[i + NOTED], rec.changed = n, true", ""},
		{"a late settle is not charged", "if rec[i + TAKEN] >= 0 and n and n > charged then", "if false then"},
		{"a reclaim refunds all", "return max(rec[i + NOTED], ", "return 0 * max(rec[i + NOTED], "},
		{"a reclaim forgets the index", "call('ZREM', base .. ':open:' .. epoch", "call('ZSCORE', base .. ':open:' .. epoch"},
		{"a key expires before its counter is full", "local l = max(reset(c, now), c.paused - now)", "local l = 0"},
		{"two lines on one counter are judged apart", "pending[w] = pending[w] + amount[i]", "pending[w] = 0"},
	} {
		t.Run(m.name, func(t *testing.T) {
			p, ok := mutated(m.right, m.wrong)
			if !ok {
				t.Fatalf("no script has %q", m.right)
			}
			if err := checkLifecycle(t, p); err == nil {
				t.Error("nothing was found")
			}
		})
	}
}

// checkLifecycle plays the life of some reservations, and tells what went wrong.
func checkLifecycle(t *testing.T, p scripts) error {
	s := open(t)
	s.scripts = p
	now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
	s.SetClock(now)
	ctx := context.Background()
	tpm := &budget.Limit{
		Place: "team/a", Scope: budget.Team, Name: "tpm", Unit: budget.Tokens, Amount: 1, Period: budget.Hour, Burst: 1000,
		Bank: 4, MaxDebt: 1000, Algorithm: budget.TokenBucket, Tag: "a",
	}
	var errs []error
	ask := func(id string, want error, amounts ...int64) {
		r := budget.Request{ID: id, Epoch: "e1"}
		for _, a := range amounts {
			r.Lines = append(r.Lines, budget.Line{Limit: tpm, Amount: a})
		}
		if id == "late" {
			r.NotAfter = now.Add(-time.Millisecond)
		}
		v, err := s.Reserve(ctx, r)
		if !errors.Is(err, want) || (want == nil && v.Outcome != budget.Granted) {
			errs = append(errs, fmt.Errorf("reserve %s: got %v, %v, want %v", id, v.Outcome, err, want))
		}
	}
	settle := func(id string, known bool, used int64) {
		got, err := s.Settle(ctx, []budget.Settlement{{ID: id, Epoch: "e1", Lines: []budget.Line{{Limit: tpm}}, Used: []int64{used}}})
		if err != nil || got[0].Known != known {
			errs = append(errs, fmt.Errorf("settle %s: got %+v, %v, want known %v", id, got, err, known))
		}
	}
	left := func(when string, want int64) {
		states, _, err := s.Read(ctx, []budget.Line{{Limit: tpm}})
		if err != nil || states[0].Remaining != want {
			errs = append(errs, fmt.Errorf("%s: got %+v, %v, want %d left", when, states, err, want))
		}
	}
	ask("one", nil, 100)
	ask("one", nil, 100)
	left("after a repeat", 900)
	ask("one", budget.ErrConflict, 101)
	settle("one", true, 100)
	settle("one", false, 0)
	left("after a second settle", 900)
	ask("one", budget.ErrTooLate, 100)
	settle("unknown", false, 0)
	ask("unknown", budget.ErrTooLate, 100)
	ask("late", budget.ErrTooLate, 100)
	if v, err := s.Reserve(ctx, budget.Request{ID: "both", Epoch: "e1", Lines: []budget.Line{{Limit: tpm, Amount: 500}, {Limit: tpm, Amount: 500}}}); err != nil || v.Outcome == budget.Granted {
		errs = append(errs, fmt.Errorf("two lines on one counter: got %+v, %v, want a refusal", v, err))
	}
	left("before the crash", 900)
	if ttl := s.client.PTTL(ctx, s.rulesOf(tpm).key("")).Val(); ttl < 100*time.Hour {
		errs = append(errs, fmt.Errorf("the counter is kept for %v, want 100 hours", ttl))
	}
	ask("crash", nil, 100)
	if score := s.client.ZScore(ctx, s.prefix+":open:e1", "crash").Val(); int64(score) != now.Add(24*time.Hour).UnixMilli() {
		errs = append(errs, fmt.Errorf("the index has %.0f", score))
	}
	if err := s.Report(ctx, []budget.Progress{{ID: "crash", Lines: []budget.Line{{Limit: tpm}}, Used: []int64{30}}}); err != nil {
		errs = append(errs, err)
	}
	now = now.Add(11 * time.Second)
	s.SetClock(now)
	if got, err := s.Reclaim(ctx, 10*time.Second, 10); err != nil || got.Records != 1 {
		errs = append(errs, fmt.Errorf("reclaim: got %+v, %v, want one record", got, err))
	}
	left("after the reclaim", 870)
	if ids, err := s.OpenIDs(ctx, "e1"); err != nil || len(ids) != 0 || s.client.ZCard(ctx, s.prefix+":open:e1").Val() != 0 {
		errs = append(errs, fmt.Errorf("open after the reclaim: %v, %v", ids, err))
	}
	ask("ghost", budget.ErrFenced, 1)
	settle("crash", false, 50)
	settle("crash", false, 50)
	left("after the late settle", 850)
	// On another base than the registry only reclaim.lua sets the fence.
	if err := s.run(ctx, &s.scripts.reclaim, []any{s.prefix + ":other"}, []any{s.given(), 10, "dead", "e9"}).Err(); err != nil {
		errs = append(errs, err)
	}
	if s.client.ZScore(ctx, s.prefix+":other:fenced", "e9").Err() != nil {
		errs = append(errs, errors.New("the fence is missing"))
	}
	return errors.Join(errs...)
}
