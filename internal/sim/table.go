package sim

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"llmgw/internal/budget"
)

// Question is what somebody wants to know before choosing a limit.
type Question struct {
	Nodes int   // gateways
	Limit int64 // requests per second for all of them
	Load  int   // requests per second that clients send
	Sync  []int64
	// Leases are sizes to take requests in from the store.
	Leases []int64
	// Minute is a limit of tokens.
	Minute Minute
	// Policies are what an absent store is met with.
	Policies []budget.StorePolicy
}

// seconds is how long a fleet is played.
const seconds = 21

// The largest fleets that are played, and the largest limits and loads a second.
const (
	mostNodes     = 1000
	mostPerSecond = 1_000_000
)

// Print plays q and writes its tables. Its errors are what is wrong with q, or
// w's.
func (q Question) Print(w io.Writer) error {
	if min(int64(q.Nodes), q.Limit, int64(q.Load)) < 1 || q.Nodes > mostNodes || max(q.Limit, int64(q.Load)) > mostPerSecond {
		return fmt.Errorf("1 to %d nodes and a limit and a load of 1 to %d can be played, not %d, %d and %d",
			mostNodes, mostPerSecond, q.Nodes, q.Limit, q.Load)
	}
	if slices.ContainsFunc(q.Leases, func(n int64) bool { return n < 1 }) {
		return fmt.Errorf("a lease is of 1 request at least, not %d", slices.Min(q.Leases))
	}
	if err := q.Minute.check(); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for i, part := range []func(io.Writer) error{q.algorithms, q.large, q.held, q.fleets, q.races, q.leases, q.outages} {
		if i > 0 {
			fmt.Fprintln(t)
		}
		if err := part(t); err != nil {
			return err
		}
	}
	return t.Flush()
}

func (q Question) algorithms(w io.Writer) error {
	trace := Classic(q.Limit)
	all, err := Algorithms(q.Limit, trace)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "limit %d/s: half of it, a burst on both sides of a second's edge, twice the limit\tadmitted of %d\tmost in a second\t\n", q.Limit, len(trace))
	for _, a := range all {
		fmt.Fprintf(w, "%s\t%d\t%d\t\n", a.Name, a.Admitted, a.Worst)
	}
	return nil
}

func (q Question) large(w io.Writer) error {
	m := q.Minute
	fmt.Fprintf(w, "%d of %d tokens/min at once, among small requests for %.1f times the rate\tgranted after\t\n", m.Large, m.Amount, float64(m.Pressure)/1000)
	for _, row := range []struct {
		name  string
		claim Claim
	}{{"polling each second", Polls}, {"with a claim on half of the refill", Claims}} {
		ms, granted, err := m.LargeWaits(row.claim)
		if err != nil {
			return err
		}
		after := fmt.Sprintf("%d s", ms/second)
		if !granted {
			after = "not in 55 min"
		}
		fmt.Fprintf(w, "%s\t%s\t\n", row.name, after)
	}
	return nil
}

func (q Question) held(w io.Writer) error {
	m := q.Minute
	fmt.Fprintf(w, "%d tokens/min, requests of %d s reserve %d and use %d\tof the limit used\t\n", m.Amount, m.RunsMS/second, m.Reserve, m.Use)
	row := func(name string, l *Limiter) { fmt.Fprintf(w, "%s\t%.1f %%\t\n", name, 100*m.Utilisation(l)) }
	row("fixed window of 60 s", FixedWindow(m.Amount, 60*second))
	for _, bank := range []int64{1, 2, 4, 0} {
		l, err := m.Bucket(bank)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("token bucket, bank: %d", bank)
		if bank == 0 {
			name = "token bucket without a bank cap"
		}
		row(name, l)
	}
	return nil
}

func (q Question) fleets(w io.Writer) error {
	fmt.Fprintf(w, "%d nodes, limit %d/s, load %d/s\tadmitted/s\t\n", q.Nodes, q.Limit, q.Load)
	fleets := []Fleet{{Sharing: Full}, {Sharing: Split}, {Sharing: Split, Spread: Pinned}, {Sharing: Shared}}
	for _, ms := range q.Sync {
		fleets = append(fleets, Fleet{Sharing: Synced, SyncMS: ms})
	}
	for _, f := range fleets {
		f.Nodes, f.Limit, f.Load, f.Seconds = q.Nodes, q.Limit, q.Load, seconds
		name := string(f.Sharing)
		switch {
		case f.Spread == Pinned:
			name += ", client pinned to one"
		case f.Sharing == Synced:
			name += fmt.Sprintf(" each %d ms", f.SyncMS)
		}
		admitted, err := f.Admitted()
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\t%.0f\t\n", name, admitted)
	}
	return nil
}

func (q Question) races(w io.Writer) error {
	fmt.Fprintf(w, "read, then write (load %d/s)\tadmitted of a limit of %d\t\n", q.Load, q.Limit)
	for _, trip := range []int64{0, 1, 5} {
		name := fmt.Sprintf("a trip of %d ms between", trip)
		if trip == 0 {
			name = "atomic"
		}
		fmt.Fprintf(w, "%s\t%d\t\n", name, ReadThenWrite(q.Load, q.Limit, trip))
	}
	return nil
}

func (q Question) leases(w io.Writer) error {
	fmt.Fprintf(w, "%d requests/s that the limit admits\tcalls of the store/s\t\n", q.Load)
	for _, l := range Leases(q.Load, append([]int64{1}, q.Leases...)...) {
		name := fmt.Sprintf("leases of %d", l.Size)
		if l.Size == 1 {
			name = "one call each"
		}
		fmt.Fprintf(w, "%s\t%d\t\n", name, l.Calls)
	}
	return nil
}

func (q Question) outages(w io.Writer) error {
	requests := int(2*q.Limit/int64(q.Nodes)) + 2
	fmt.Fprintf(w, "store away, %d quick requests at one node\tadmitted\t\n", requests)
	for _, p := range q.Policies {
		n, err := Outage(p, q.Nodes, q.Limit, requests)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "when_store_down: %s\t%d\t\n", p, n)
	}
	return nil
}
