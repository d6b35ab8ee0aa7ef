package sim

import (
	"fmt"
	"io"
	"text/tabwriter"

	"llmgw/internal/budget"
)

// Question is what somebody wants to know before choosing a limit.
type Question struct {
	Nodes int   // gateways
	Limit int64 // requests per second for all of them
	Load  int   // requests per second that clients send
	Sync  []int64
	// Policies are what an absent store is met with.
	Policies []budget.StorePolicy
}

// seconds is how long a fleet is played.
const seconds = 21

// Print plays q and writes its tables. Its errors are what is wrong with q, or
// w's.
func (q Question) Print(w io.Writer) error {
	if q.Nodes < 1 || q.Limit < 1 || q.Load < 1 {
		return fmt.Errorf("nodes, limit and load must be at least 1, not %d, %d and %d", q.Nodes, q.Limit, q.Load)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for i, part := range []func(io.Writer) error{q.algorithms, q.fleets, q.races, q.outages} {
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
	all, err := Algorithms(10, Classic())
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "limit of 10/s on the classic trace\tadmitted of 80\tmost in a second\t")
	for _, a := range all {
		fmt.Fprintf(w, "%s\t%d\t%d\t\n", a.Name, a.Admitted, a.Worst)
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
