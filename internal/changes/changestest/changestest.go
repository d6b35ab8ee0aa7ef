// Package changestest is what every list of changes must do, as tests.
package changestest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// Log is changes.Log, which the packages below that one cannot name.
type Log interface {
	From(ctx context.Context, n int) ([]string, error)
	Append(ctx context.Context, n int, text string) (bool, error)
}

// Run runs all tests. open returns a log over the same empty list each time that it
// is called in one test.
func Run(t *testing.T, open func(t *testing.T) Log) {
	t.Run("a list grows at its end alone", func(t *testing.T) { growsAtItsEnd(t, open(t)) })
	t.Run("of many who append at once each place has one", func(t *testing.T) { onePlaceOneText(t, open(t)) })
	t.Run("a call that is over changes nothing", func(t *testing.T) { overIsOver(t, open(t)) })
}

func growsAtItsEnd(t *testing.T, l Log) {
	texts := []string{`{"a": "ü\n"}`, "", "again", "again"}
	for n, text := range texts {
		for _, wrong := range []int{n - 1, n + 1} {
			if ok, err := l.Append(t.Context(), wrong, "not here"); ok || err != nil {
				t.Fatalf("Append at %d of %d: %t, %v", wrong, n, ok, err)
			}
		}
		if ok, err := l.Append(t.Context(), n, text); !ok || err != nil {
			t.Fatalf("Append at %d: %t, %v", n, ok, err)
		}
	}
	for n := range len(texts) + 2 {
		got, err := l.From(t.Context(), n)
		if want := texts[min(n, len(texts)):]; err != nil || !slices.Equal(got, want) {
			t.Errorf("From(%d) is %q, %v; want %q", n, got, err, want)
		}
	}
}

func onePlaceOneText(t *testing.T, l Log) {
	const writers, each = 4, 10
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := 0; i < each; {
				texts, err := l.From(t.Context(), 0)
				if err != nil {
					t.Error(err)
					return
				}
				ok, err := l.Append(t.Context(), len(texts), fmt.Sprint(w, ".", i))
				if err != nil {
					t.Error(err)
					return
				}
				if ok {
					i++
				}
			}
		})
	}
	all.Wait()
	got, err := l.From(t.Context(), 0)
	if err != nil || len(got) != writers*each {
		t.Fatalf("%d texts, %v; want %d", len(got), err, writers*each)
	}
	slices.Sort(got)
	if distinct := slices.Compact(got); len(distinct) != writers*each {
		t.Errorf("only %d of the texts are there", len(distinct))
	}
}

func overIsOver(t *testing.T, l Log) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.From(over, 0); err == nil {
		t.Error("From has no error")
	}
	if ok, err := l.Append(over, 0, "late"); ok || err == nil {
		t.Errorf("Append: %t, %v", ok, err)
	}
	if texts, err := l.From(t.Context(), 0); err != nil || len(texts) != 0 {
		t.Errorf("the list is %q, %v", texts, err)
	}
}
