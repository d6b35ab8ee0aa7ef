package admin

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"llmgw/internal/changes"
	"llmgw/internal/fault"
	"llmgw/internal/tenant"
)

// priorities are the classes of a key.
var priorities = []string{"interactive", "standard", "batch"}

// keyBody is a key as operators see it.
type keyBody struct {
	ID     string `json:"id"`
	Team   string `json:"team"`
	Secret string `json:"secret,omitempty"` // where it was made, once
	Source string `json:"source"`           // file or runtime
	// Models are those that the key may use of its team's. null: all.
	Models    []string        `json:"models"`
	Limits    json.RawMessage `json:"limits,omitempty"`
	Priority  string          `json:"priority,omitempty"`
	ExpiresAt *time.Time      `json:"expires_at"`
	Note      string          `json:"note,omitempty"`
	CreatedAt *time.Time      `json:"created_at,omitempty"`
	LastUsed  *time.Time      `json:"last_used"`
	// FormerUntil is when the last secret that a rotation replaced ends to work.
	FormerUntil *time.Time `json:"former_until,omitempty"`
}

func keyBodyOf(k changes.Key, used map[string]time.Time) keyBody {
	b := keyBody{
		ID: k.ID, Team: k.Team, Source: "runtime", Models: k.Models, Limits: k.Limits, Priority: k.Priority,
		ExpiresAt: k.ExpiresAt, Note: k.Note, CreatedAt: &k.CreatedAt, LastUsed: usedAt(used, k.ID),
	}
	for _, f := range k.Former {
		if b.FormerUntil == nil || f.Until.After(*b.FormerUntil) {
			b.FormerUntil = &f.Until
		}
	}
	return b
}

func usedAt(used map[string]time.Time, id string) *time.Time {
	if at, ok := used[id]; ok {
		return &at
	}
	return nil
}

// listKeys lists the keys of the file, then those that were made at run time.
func (h *handler) listKeys(w http.ResponseWriter, r *http.Request, who Account) {
	keys, err := h.keysOf(r.Context(), who)
	if err != nil {
		storeAway(w, err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"keys": keys})
}

func (h *handler) keysOf(ctx context.Context, who Account) ([]keyBody, error) {
	used, err := h.config.LastUsed(ctx)
	if err != nil {
		return nil, err
	}
	state, list := h.config.Changes.State(), []keyBody{}
	made := map[string]bool{}
	for _, k := range state.Keys() {
		made[k.ID] = true
	}
	for _, t := range h.teamsOf(who) {
		for _, k := range t.Keys {
			if !made[k.ID] {
				list = append(list, keyBody{ID: k.ID, Team: t.Name, Source: "file", Models: names(k.Models), LastUsed: usedAt(used, k.ID)})
			}
		}
	}
	for _, k := range state.Keys() {
		if who.has(k.Team) {
			list = append(list, keyBodyOf(k, used))
		}
	}
	return list, nil
}

func (h *handler) getKey(w http.ResponseWriter, r *http.Request, who Account) {
	keys, err := h.keysOf(r.Context(), who)
	if err != nil {
		storeAway(w, err)
		return
	}
	id := r.PathValue("id")
	i := slices.IndexFunc(keys, func(k keyBody) bool { return k.ID == id })
	if i < 0 {
		notFound(w, fmt.Sprintf("There is no key %q.", id))
		return
	}
	reply(w, http.StatusOK, keys[i])
}

// keyRequest is what a key is made or changed by.
type keyRequest struct {
	Team      *string         `json:"team"`
	ID        *string         `json:"id"`
	Models    json.RawMessage `json:"models"` // names; null: all that the team may use
	Limits    json.RawMessage `json:"limits"`
	Priority  *string         `json:"priority"`
	ExpiresAt json.RawMessage `json:"expires_at"` // a time; null: never
	Note      *string         `json:"note"`
}

// maxNote bounds what people write about a change, in bytes.
const maxNote = 1000

// onto is k with what q says.
func (q keyRequest) onto(k changes.Key, now time.Time) (changes.Key, error) {
	if len(q.Models) > 0 {
		k.Models = nil
		if err := json.Unmarshal(q.Models, &k.Models); err != nil {
			return k, fault.Invalid("models", "models is neither a list of names nor null.")
		}
	}
	if len(q.Limits) > 0 {
		k.Limits = q.Limits
		if bytes.Equal(q.Limits, []byte("null")) {
			k.Limits = nil
		}
	}
	if q.Priority != nil {
		if *q.Priority != "" && !slices.Contains(priorities, *q.Priority) {
			return k, fault.Invalid("priority", fmt.Sprintf("priority is %q, not one of %s.", *q.Priority, strings.Join(priorities, ", ")))
		}
		k.Priority = *q.Priority
	}
	if q.Note != nil {
		if len(*q.Note) > maxNote {
			return k, fault.Invalid("note", fmt.Sprintf("note is longer than %d bytes.", maxNote))
		}
		k.Note = *q.Note
	}
	if len(q.ExpiresAt) > 0 {
		if err := json.Unmarshal(q.ExpiresAt, &k.ExpiresAt); err != nil {
			return k, fault.Invalid("expires_at", "expires_at is not a time such as 2026-11-29T18:00:00Z, or null.")
		}
		if k.ExpiresAt != nil && !k.ExpiresAt.After(now) {
			return k, fault.Invalid("expires_at", "expires_at is in the past.")
		}
	}
	return k, nil
}

func (h *handler) createKey(w http.ResponseWriter, r *http.Request, who Account) {
	var q keyRequest
	if !readJSON(w, r, maxBody, &q) {
		return
	}
	if q.Team == nil {
		badRequest(w, "team is wanted.")
		return
	}
	if !who.has(*q.Team) {
		h.forbidTeam(w, r, who)
		return
	}
	secret, hash := tenant.NewSecret()
	now := h.config.Now().UTC()
	k, err := q.onto(changes.Key{Team: *q.Team, SHA256: hex.EncodeToString(hash[:]), CreatedAt: now, Version: now.UnixMilli()}, now)
	if err != nil {
		h.fail(w, err)
		return
	}
	const suffix = 1 + 2*3 // a dash and three bytes
	k.ID = k.Team[:min(len(k.Team), 128-suffix)] + "-" + hex.EncodeToString(hash[:3])
	if q.ID != nil {
		k.ID = *q.ID
	}
	h.makeKey(w, r, who, changes.KeyCreated, k, secret)
}

// makeKey appends a new key, or one with a new secret, and answers with it.
func (h *handler) makeKey(w http.ResponseWriter, r *http.Request, who Account, action changes.Action, k changes.Key, secret string) {
	if err := h.config.CheckKey(k); err != nil {
		h.fail(w, err)
		return
	}
	err := h.config.Changes.Make(r.Context(), func(s *changes.State) (*changes.Entry, error) {
		if _, taken := s.Key(k.ID); taken || h.inFile(s, k.ID) {
			return nil, conflict("There is already a key %q.", k.ID)
		}
		return keyEntry(who, action, nil, &k), nil
	})
	if err != nil {
		h.fail(w, err)
		return
	}
	b := keyBodyOf(k, nil)
	b.Secret = secret
	w.Header().Set("Location", "/admin/v1/keys/"+k.ID)
	reply(w, http.StatusCreated, b)
}

// inFile reports whether a key with this id is in force that s does not have.
func (h *handler) inFile(s *changes.State, id string) bool {
	if _, made := s.Key(id); made {
		return false
	}
	return slices.ContainsFunc(h.config.Teams(), func(t tenant.Team) bool {
		return slices.ContainsFunc(t.Keys, func(k tenant.Key) bool { return k.ID == id })
	})
}

// keyEntry is an entry about a key: what it was and what it is, of which each may
// be nil.
func keyEntry(who Account, action changes.Action, from, to *changes.Key) *changes.Entry {
	e := &changes.Entry{By: who.Name, Action: action, Key: to}
	if from != nil {
		e.Target, e.Team, e.From = from.ID, from.Team, asJSON(keyBodyOf(*from, nil))
	}
	if to != nil {
		e.Target, e.Team, e.To = to.ID, to.Team, asJSON(keyBodyOf(*to, nil))
	}
	return e
}

// asJSON is v, which can be written as JSON.
func asJSON(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic("admin: " + err.Error())
	}
	return text
}

// changeKey makes f's change to the key that the path names, and reports whether it
// was made; otherwise it has answered.
func (h *handler) changeKey(w http.ResponseWriter, r *http.Request, who Account, f func(changes.Key) (*changes.Entry, error)) bool {
	id := r.PathValue("id")
	err := h.config.Changes.Make(r.Context(), func(s *changes.State) (*changes.Entry, error) {
		k, ok := s.Key(id)
		switch {
		case ok && !who.has(k.Team), !ok && !h.hasKey(who, id):
			return nil, errOtherTeam
		case !ok && h.inFile(s, id):
			return nil, conflict("The key %q is the configuration's: change it there.", id)
		case !ok:
			return nil, &fault.Error{Code: fault.NotFound, Message: fmt.Sprintf("There is no key %q.", id)}
		}
		return f(k)
	})
	if err == errOtherTeam { //nolint:errorlint // it is never wrapped
		h.forbidTeam(w, r, who)
		return false
	}
	if err != nil {
		h.fail(w, err)
		return false
	}
	return true
}

func (h *handler) patchKey(w http.ResponseWriter, r *http.Request, who Account) {
	var q keyRequest
	if !readJSON(w, r, maxBody, &q) {
		return
	}
	if q.ID != nil || q.Team != nil {
		badRequest(w, "The id and the team of a key stay: make another key.")
		return
	}
	var changed changes.Key
	if !h.changeKey(w, r, who, func(k changes.Key) (*changes.Entry, error) {
		now := h.config.Now().UTC()
		var err error
		if changed, err = q.onto(k, now); err != nil {
			return nil, err
		}
		changed.Version = max(now.UnixMilli(), k.Version+1)
		if err := h.config.CheckKey(changed); err != nil {
			return nil, err
		}
		return keyEntry(who, changes.KeyChanged, &k, &changed), nil
	}) {
		return
	}
	h.replyKey(w, r, changed)
}

// replyKey answers with k, and when it was last used where that is known.
func (h *handler) replyKey(w http.ResponseWriter, r *http.Request, k changes.Key) {
	used, _ := h.config.LastUsed(r.Context()) // what was changed is changed all the same
	reply(w, http.StatusOK, keyBodyOf(k, used))
}

func (h *handler) deleteKey(w http.ResponseWriter, r *http.Request, who Account) {
	if h.changeKey(w, r, who, func(k changes.Key) (*changes.Entry, error) {
		return keyEntry(who, changes.KeyDeleted, &k, nil), nil
	}) {
		w.WriteHeader(http.StatusNoContent)
	}
}

// How long both secrets of a rotated key work, unless it is said, and at most.
const (
	rotationGrace = 24 * time.Hour
	maxGrace      = 30 * 24 * time.Hour
)

func (h *handler) rotateKey(w http.ResponseWriter, r *http.Request, who Account) {
	var q struct {
		Grace *string `json:"grace"`
	}
	if r.ContentLength != 0 && !readJSON(w, r, maxBody, &q) {
		return
	}
	grace := rotationGrace
	if q.Grace != nil {
		var err error
		if grace, err = time.ParseDuration(*q.Grace); err != nil || grace < 0 || grace > maxGrace {
			badRequest(w, "grace is %q, not a duration such as 24h, up to %s.", *q.Grace, maxGrace)
			return
		}
	}
	secret, hash := tenant.NewSecret()
	var rotated changes.Key
	if !h.changeKey(w, r, who, func(k changes.Key) (*changes.Entry, error) {
		now := h.config.Now().UTC()
		rotated = k
		rotated.Former = nil
		for _, f := range append(slices.Clone(k.Former), changes.Former{SHA256: k.SHA256, Until: now.Add(grace)}) {
			if f.Until.After(now) {
				rotated.Former = append(rotated.Former, f)
			}
		}
		rotated.SHA256 = hex.EncodeToString(hash[:])
		return keyEntry(who, changes.KeyRotated, &k, &rotated), nil
	}) {
		return
	}
	b := keyBodyOf(rotated, nil)
	b.Secret = secret
	reply(w, http.StatusCreated, b)
}
