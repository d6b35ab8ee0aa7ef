package estimate

import (
	"bytes"
	"fmt"
	"maps"
	"testing"

	"llmgw/internal/tokens"
)

// taught is an estimator that has learned from n answers of one model.
func taught(model string, n int, ratio float64, output tokens.Count) *Estimator {
	e := New(Config{})
	rules := Rules{Provider: "p", Model: model, Team: "search", Flavor: "vllm", Learned: true}
	for range n {
		e.Observe(Observation{
			Rules: rules, Estimate: Estimate{base: 1000, kinds: hiddenContext}, Used: tokens.Usage{Input: tokens.Count(1000 * ratio), Output: output},
			InputKnown: true, OutputKnown: true, Complete: true,
		})
	}
	return e
}

// same tells whether two estimators know the same.
func same(a, b *Estimator) bool {
	histograms := func(x, y *sizes) bool { return *x == *y }
	return maps.Equal(a.ratios.all, b.ratios.all) && maps.Equal(a.ratios.shared, b.ratios.shared) &&
		maps.EqualFunc(a.outputs.all, b.outputs.all, histograms) && maps.EqualFunc(a.hidden.all, b.hidden.all, histograms)
}

func TestWhatWasLearnedOutlivesARestart(t *testing.T) {
	before := taught("some-model", 40, 1.3, 100)
	after := taught("forgotten", 40, 2, 5)
	if err := after.Restore(before.Snapshot()); err != nil {
		t.Fatal(err)
	}
	if !same(before, after) {
		t.Errorf("restored %v, want %v", after.ratios.all, before.ratios.all)
	}
}

func TestMergingKeepsTheRecordOfMoreAnswers(t *testing.T) {
	much, little, other := taught("m", 50, 1.5, 100), taught("m", 40, 1.1, 900), taught("n", 30, 2, 7)
	if err := much.Merge(little.Snapshot()); err != nil || !same(much, taught("m", 50, 1.5, 100)) {
		t.Errorf("%v, %v, want what was known better before", much.ratios.all, err)
	}
	for range 2 { // again, it changes nothing
		for _, from := range []*Estimator{much, other} {
			if err := little.Merge(from.Snapshot()); err != nil {
				t.Fatal(err)
			}
		}
		for _, from := range []*Estimator{little, other} {
			if err := much.Merge(from.Snapshot()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !same(much, little) || len(much.ratios.all) != 2 {
		t.Errorf("%v and %v, want the same two models", much.ratios.all, little.ratios.all)
	}
	if got := little.ratios.expect(ratioKey{"p", "m", "", "search"}); got != 1.5 {
		t.Errorf("the ratio is %v, want that of more answers", got)
	}
}

func TestASnapshotOfBeforeSpreadsWereLearnedIsTaken(t *testing.T) {
	e := New(Config{})
	if err := e.Merge([]byte(`{"version":1,"ratios":[{"provider":"p","model":"m","mean":1.5,"deviation":0.1,"weight":50,"answers":99}]}`)); err != nil {
		t.Fatal(err)
	}
	if got := e.ratios.reserve(ratioKey{"p", "m", "", ""}); got != 1.5+spreadFirst*0.1 {
		t.Errorf("%v is reserved, want %v", got, 1.5+spreadFirst*0.1)
	}
}

func TestMergingStaysWithinTheBound(t *testing.T) {
	big := New(Config{})
	for i := range 50 {
		big.ratios.observe(ratioKey{"p", fmt.Sprint(i), "", ""}, 100, 200)
		big.outputs.observe(outputKey{"t", fmt.Sprint(i), 0}, 5)
	}
	small := New(Config{LearnedModels: 10})
	if err := small.Merge(big.Snapshot()); err != nil {
		t.Fatal(err)
	}
	if len(small.ratios.all) != 10 || len(small.outputs.all) != 10 {
		t.Errorf("%d ratios and %d outputs, want 10 of each", len(small.ratios.all), len(small.outputs.all))
	}
}

func TestASnapshotThatIsNoneIsRefusedWhole(t *testing.T) {
	e := taught("some-model", 40, 1.3, 100)
	want := e.Snapshot()
	for _, bad := range []string{
		``, `[]`, `{}`, `{"version":2}`,
		`{"version":1,"ratios":[{"provider":"p","model":"m","mean":0.1,"deviation":0,"weight":1,"answers":99}]}`,
		`{"version":1,"ratios":[{"provider":"p","model":"m","mean":1,"deviation":-1,"weight":1,"answers":99}]}`,
		`{"version":1,"ratios":[{"provider":"p","model":"m","mean":1,"deviation":0,"weight":0,"answers":99}]}`,
		`{"version":1,"ratios":[{"provider":"p","model":"m","mean":1,"deviation":0,"spread":13,"weight":1,"answers":99}]}`,
		`{"version":1,"ratios":[{"provider":"p","model":"m","mean":1,"deviation":0,"weight":1,"answers":0}]}`,
		`{"version":1,"outputs":[{"team":"t","model":"m","slots":{"9999":1}}]}`,
		`{"version":1,"outputs":[{"team":"t","model":"m","slots":{"-1":1}}]}`,
		`{"version":1,"outputs":[{"team":"t","model":"m","slots":{"1":60000}}]}`,
		`{"version":1,"hidden":[{"team":"t","model":"m","kinds":1,"slots":{"1":60000}}]}`,
	} {
		if e.Restore([]byte(bad)) == nil || e.Merge([]byte(bad)) == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	if got := e.Snapshot(); !bytes.Equal(got, want) {
		t.Errorf("what was learned changed to %s", got)
	}
}

// FuzzSnapshots feeds what may be a snapshot: it is refused, or what is then
// known can be taken up again.
func FuzzSnapshots(f *testing.F) {
	f.Add(taught("m", 3, 1.2, 50).Snapshot())
	f.Add([]byte(`{"version":1,"ratios":[{"mean":1,"weight":1e300,"answers":1}],"outputs":[{"slots":{"3":2}}]}`))
	f.Add([]byte(`{"version":1,"ratios":null}`))
	f.Fuzz(func(t *testing.T, snapshot []byte) {
		e, again := New(Config{CacheEntries: 1}), New(Config{CacheEntries: 1})
		if e.Merge(snapshot) != nil {
			if !bytes.Equal(e.Snapshot(), again.Snapshot()) {
				t.Fatalf("%s was refused, and changed something", snapshot)
			}
			return
		}
		if err := again.Restore(e.Snapshot()); err != nil {
			t.Fatalf("%s: %v", snapshot, err)
		}
		if !same(e, again) {
			t.Fatalf("%s: what is known changes", snapshot)
		}
	})
}
