package config

import (
	"errors"

	"llmgw/internal/budget"
)

// Report is what a load of a configuration came to, as JSON.
type Report struct {
	Valid    bool              `json:"valid"`
	Errors   []ReportProblem   `json:"errors"`
	Warnings []ReportProblem   `json:"warnings"`
	Keys     []ReportKey       `json:"keys"`
	Prices   map[string]string `json:"prices"` // by model
}

// ReportProblem is a Problem.
type ReportProblem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
}

// ReportKey are the limits that calls with one key can meet. A team without a key
// has one without an ID.
type ReportKey struct {
	ID     string        `json:"key"`
	Team   string        `json:"team"`
	Limits []ReportLimit `json:"limits"`
}

// ReportLimit is a limit. Amounts are in its unit, dollars in dollars.
type ReportLimit struct {
	Limit         string  `json:"limit"`
	Scope         string  `json:"scope"`
	Unit          string  `json:"unit"`
	Amount        float64 `json:"amount"`
	Per           string  `json:"per,omitempty"`
	Capacity      float64 `json:"capacity"`
	Algorithm     string  `json:"algorithm"`
	OnExceed      string  `json:"on_exceed"`
	WhenStoreDown string  `json:"when_store_down"`
	Mode          string  `json:"mode"`
}

// PiecesOfBooks reports whether c's records are one gateway's own while its limits
// are all gateways'.
func (c *Config) PiecesOfBooks() bool { return c.Store.Kind == "redis" && c.Records.Kind != "postgres" }

// WarningOfPieces is what people are told of PiecesOfBooks.
const WarningOfPieces = "several gateways on one Redis keep books in pieces, each its own calls: records with kind: postgres keep them together"

// ReportOf is the report of what Load returned.
func ReportOf(c *Config, err error) Report {
	r := Report{Valid: err == nil, Errors: []ReportProblem{}, Warnings: []ReportProblem{}, Keys: []ReportKey{}, Prices: map[string]string{}}
	var all Errors
	switch {
	case errors.As(err, &all):
		r.Errors = reported(all)
	case err != nil:
		r.Errors = append(r.Errors, ReportProblem{Message: err.Error()})
	}
	if c == nil {
		return r
	}
	r.Warnings = reported(c.Warnings)
	if c.PiecesOfBooks() {
		r.Warnings = append(r.Warnings, ReportProblem{Message: WarningOfPieces})
	}
	for i := range c.Teams {
		t := &c.Teams[i]
		if len(t.Keys) == 0 {
			r.Keys = append(r.Keys, ReportKey{Team: t.Name, Limits: limitsOf(c.limitsOf(t, &Key{}))})
		}
		for k := range t.Keys {
			r.Keys = append(r.Keys, ReportKey{ID: t.Keys[k].ID, Team: t.Name, Limits: limitsOf(c.limitsOf(t, &t.Keys[k]))})
		}
	}
	for i := range c.Models {
		if p := c.Models[i].Prices; p != nil {
			r.Prices[c.Models[i].Name] = p.String()
		}
	}
	return r
}

func reported(all []Problem) []ReportProblem {
	list := make([]ReportProblem, len(all))
	for i, p := range all {
		list[i] = ReportProblem{p.File, p.Line, p.Column, p.What}
	}
	return list
}

func limitsOf(all []*budget.Limit) []ReportLimit {
	list := make([]ReportLimit, len(all))
	for i, l := range all {
		exceed := "reject"
		if l.Wait {
			exceed = "wait"
		}
		list[i] = ReportLimit{
			Limit: written(l), Scope: string(l.Scope), Unit: string(l.Unit), Amount: l.Unit.Number(l.Amount), Per: string(l.Period), Capacity: l.Unit.Number(l.Capacity()),
			Algorithm: string(l.Algorithm), OnExceed: exceed, WhenStoreDown: string(l.WhenStoreDown), Mode: string(l.Mode),
		}
	}
	return list
}
