package estimate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"llmgw/internal/tokens"
)

// state is everything learned, as it is kept over a restart and shared between
// instances.
type state struct {
	Version int           `json:"version"`
	Ratios  []ratioState  `json:"ratios,omitempty"`
	Outputs []outputState `json:"outputs,omitempty"`
	Hidden  []outputState `json:"hidden,omitempty"`
	Unseen  []unseenState `json:"unseen,omitempty"`
}

type ratioState struct {
	Provider  string  `json:"provider"`
	Model     string  `json:"model"`
	Class     string  `json:"class,omitempty"`
	Team      string  `json:"team,omitempty"`
	Mean      float64 `json:"mean"`
	Deviation float64 `json:"deviation"`
	Spread    float64 `json:"spread,omitempty"` // 0: as at first
	Weight    float64 `json:"weight"`
	Answers   int64   `json:"answers"`
}

type outputState struct {
	Team  string         `json:"team"`
	Model string         `json:"model"`
	Kinds hiddenKinds    `json:"kinds,omitempty"`
	Slots map[int]uint16 `json:"slots"`
}

type unseenState struct {
	Team     string  `json:"team,omitempty"` // empty: of all teams
	Provider string  `json:"provider"`
	Model    string  `json:"model"`
	Refers   bool    `json:"refers,omitempty"`
	Input    float64 `json:"input"`
	Hidden   float64 `json:"hidden"`
	Output   float64 `json:"output"`
	Answers  int64   `json:"answers"`
}

const stateVersion = 1

// Snapshot returns what was learned, for Restore and Merge. It holds names of
// providers, models and teams, and numbers; nothing of any request.
func (e *Estimator) Snapshot() []byte {
	s := state{Version: stateVersion}
	e.ratios.mu.RLock()
	for k, r := range e.ratios.all {
		s.Ratios = append(s.Ratios, ratioState{k.provider, k.model, k.class, k.team, r.mean, r.deviation, r.spread, r.weight, r.answers})
	}
	e.ratios.mu.RUnlock()
	s.Outputs, s.Hidden = e.outputs.states(), e.hidden.states()
	e.unseen.mu.RLock()
	for k, m := range e.unseen.all {
		s.Unseen = append(s.Unseen, unseenState{k.team, k.provider, k.model, k.refers, m.input, m.hidden, m.output, m.answers})
	}
	e.unseen.mu.RUnlock()
	slices.SortFunc(s.Unseen, func(a, b unseenState) int { // each team's stands beside that of all
		return cmp.Or(strings.Compare(a.Provider, b.Provider), strings.Compare(a.Model, b.Model), strings.Compare(a.Team, b.Team))
	})
	text, _ := json.Marshal(s) // names and finite numbers: cannot fail
	return text
}

// Restore forgets what was learned and takes a snapshot in its place. With an
// error nothing has changed.
func (e *Estimator) Restore(snapshot []byte) error {
	s, err := parseState(snapshot)
	if err != nil {
		return fmt.Errorf("restore what was learned: %w", err)
	}
	e.ratios.mu.Lock()
	e.ratios.clear()
	e.ratios.mu.Unlock()
	e.outputs.clear()
	e.hidden.clear()
	e.unseen.mu.Lock()
	clear(e.unseen.all)
	e.unseen.mu.Unlock()
	e.merge(s)
	return nil
}

// Merge takes from another instance's snapshot what it knows better: of each
// model, and each pair of team and model, the record of more answers stays.
// Merging the same snapshot twice, or in another order, changes nothing. With
// an error nothing has changed.
func (e *Estimator) Merge(snapshot []byte) error {
	s, err := parseState(snapshot)
	if err != nil {
		return fmt.Errorf("merge what was learned: %w", err)
	}
	e.merge(s)
	return nil
}

func (e *Estimator) merge(s state) {
	e.unseen.merge(s.Unseen)
	e.ratios.mu.Lock()
	for _, r := range s.Ratios {
		k := ratioKey{r.Provider, r.Model, r.Class, r.Team}
		old, known := e.ratios.all[k]
		if r.Answers > old.answers && (known || len(e.ratios.all) < e.ratios.most) {
			e.ratios.put(k, ratio{r.Mean, r.Deviation, cmp.Or(r.Spread, spreadFirst), r.Weight, r.Answers})
		}
	}
	e.ratios.mu.Unlock()
	e.outputs.merge(s.Outputs)
	e.hidden.merge(s.Hidden)
}

// states returns what was learned.
func (o *outputs) states() (all []outputState) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	for k, h := range o.all {
		s := outputState{Team: k.team, Model: k.model, Kinds: k.kinds, Slots: map[int]uint16{}}
		for i, n := range h.slots {
			if n > 0 {
				s.Slots[i] = n
			}
		}
		all = append(all, s)
	}
	return all
}

// merge takes from another instance what it has seen more often.
func (o *outputs) merge(others []outputState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range others {
		k := outputKey{s.Team, s.Model, s.Kinds}
		h := s.histogram()
		old := o.all[k]
		if old == nil && len(o.all) < o.most || old != nil && h.total > old.total {
			o.all[k] = h
		}
	}
}

// clear forgets everything.
func (o *outputs) clear() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.all)
}

func (o outputState) histogram() *sizes {
	h := new(sizes)
	for i, n := range o.Slots {
		h.slots[i] = n
		h.total += uint32(n)
	}
	return h
}

// parseState reads a snapshot and refuses one that no Snapshot has made.
func parseState(snapshot []byte) (state, error) {
	var s state
	if err := json.Unmarshal(snapshot, &s); err != nil {
		return state{}, err
	}
	if s.Version != stateVersion {
		return state{}, fmt.Errorf("version %d, want %d", s.Version, stateVersion)
	}
	for _, r := range s.Ratios {
		if !(r.Mean >= ratioLeast && r.Mean <= ratioMost) || !(r.Deviation >= 0 && r.Deviation <= ratioMost) || !(r.Spread >= 0 && r.Spread <= spreadMost) ||
			!(r.Weight > 0 && r.Weight < math.MaxInt64) || r.Answers <= 0 {
			return state{}, fmt.Errorf("ratio of %s/%s out of range", r.Provider, r.Model)
		}
	}
	for _, u := range s.Unseen {
		for _, mean := range [...]float64{u.Input, u.Hidden, u.Output} {
			if !(mean >= 0 && mean <= float64(tokens.MaxCount)) || u.Answers <= 0 {
				return state{}, fmt.Errorf("unseen of %s/%s out of range", u.Provider, u.Model)
			}
		}
	}
	for _, o := range slices.Concat(s.Outputs, s.Hidden) {
		for i, n := range o.Slots {
			if i < 0 || i >= outputSlots || n > outputWindow {
				return state{}, fmt.Errorf("outputs of %s/%s: slot %d with %d", o.Team, o.Model, i, n)
			}
		}
	}
	return s, nil
}
