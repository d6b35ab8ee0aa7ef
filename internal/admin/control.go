package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"llmgw/internal/changes"
	"llmgw/internal/fault"
)

// maxExplained bounds the body that explain judges.
const maxExplained = 64 << 20

var modes = []string{"enforce", "shadow", "off"}

type modeBody struct {
	Mode string `json:"mode"`
}

func (h *handler) enforcement(w http.ResponseWriter, r *http.Request, _ Account) {
	if h.config.Enforcement == nil {
		notServed(w)
		return
	}
	mode, err := h.config.Enforcement.Mode(r.Context())
	if err != nil {
		storeAway(w, err)
		return
	}
	reply(w, http.StatusOK, modeBody{mode})
}

func (h *handler) setEnforcement(w http.ResponseWriter, r *http.Request, who Account) {
	if h.config.Enforcement == nil {
		notServed(w)
		return
	}
	var asked modeBody
	if !readJSON(w, r, maxBody, &asked) {
		return
	}
	if !slices.Contains(modes, asked.Mode) {
		badRequest(w, "mode is %q, not one of %s.", asked.Mode, strings.Join(modes, ", "))
		return
	}
	before, _ := h.config.Enforcement.Mode(r.Context()) // for the audit alone
	if err := h.config.Enforcement.SetMode(r.Context(), asked.Mode); err != nil {
		storeAway(w, err)
		return
	}
	h.note(r.Context(), changes.Entry{By: who.Name, Action: changes.SwitchTurned, Target: "enforcement", From: asJSON(before), To: asJSON(asked.Mode)})
	reply(w, http.StatusOK, asked)
}

func (h *handler) reload(w http.ResponseWriter, r *http.Request, who Account) {
	if h.config.Reload == nil {
		notServed(w)
		return
	}
	if err := h.config.Reload(r.Context()); err != nil {
		reply(w, http.StatusUnprocessableEntity, errorBody{
			Error:  errorText{"invalid_configuration", "The configuration was refused; the old one stays in force."},
			Errors: flatten(err),
		})
		return
	}
	h.note(r.Context(), changes.Entry{By: who.Name, Action: changes.Reloaded, Target: "configuration"})
	reply(w, http.StatusOK, statusBody{"ok"})
}

// flatten lists joined errors one by one.
func flatten(err error) []string {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return strings.Split(strings.TrimSpace(err.Error()), "\n")
	}
	var list []string
	for _, e := range joined.Unwrap() {
		list = append(list, flatten(e)...)
	}
	return list
}

// Question is a request that explain judges.
type Question struct {
	KeyID string
	Path  string
	User  string     // X-LLMGW-User; "": the body's
	IP    netip.Addr // of the client; zero: one that nobody knows
	Body  []byte
}

type explainRequest struct {
	KeyID string          `json:"key_id"`
	Path  string          `json:"path"`
	User  string          `json:"user"`
	IP    netip.Addr      `json:"ip"`
	Body  json.RawMessage `json:"body"` // an object, or a string that holds one
}

func (h *handler) explain(w http.ResponseWriter, r *http.Request, who Account) {
	if h.config.Explain == nil {
		notServed(w)
		return
	}
	var asked explainRequest
	if !readJSON(w, r, maxExplained, &asked) {
		return
	}
	if asked.KeyID == "" || asked.Path == "" || len(asked.Body) == 0 {
		badRequest(w, "key_id, path and body are wanted.")
		return
	}
	if !h.hasKey(who, asked.KeyID) {
		h.forbidTeam(w, r, who)
		return
	}
	body := []byte(asked.Body)
	if body[0] == '"' {
		var text string
		if err := json.Unmarshal(body, &text); err != nil {
			badRequest(w, "body is no valid string: %s.", err)
			return
		}
		body = []byte(text)
	}
	answer, err := h.config.Explain(r.Context(), Question{asked.KeyID, asked.Path, asked.User, asked.IP, body})
	if err != nil {
		h.fail(w, err)
		return
	}
	reply(w, http.StatusOK, answer)
}

// fail answers with an error of explain or of a change: a fault as what it is,
// anything else as the store's.
func (h *handler) fail(w http.ResponseWriter, err error) {
	if errors.Is(err, ErrNotFound) {
		notFound(w, "There is no such key.")
		return
	}
	var taken *conflictError
	if errors.As(err, &taken) {
		replyError(w, http.StatusConflict, "conflict", taken.message)
		return
	}
	var f *fault.Error
	if !errors.As(err, &f) {
		storeAway(w, err)
		return
	}
	status := http.StatusUnprocessableEntity
	switch f.Code {
	case fault.InvalidAPIKey, fault.NotFound, fault.ModelNotFound:
		status = http.StatusNotFound
	case fault.InvalidRequest, fault.ExceedsLimit, fault.MethodNotAllowed:
		status = http.StatusBadRequest
	case fault.Blocked, fault.ModelNotAllowed:
		status = http.StatusForbidden
	case fault.RequestTooLarge:
		status = http.StatusRequestEntityTooLarge
	case fault.LimiterUnavailable:
		status = http.StatusServiceUnavailable
	case fault.Internal:
		status = http.StatusInternalServerError
	}
	replyError(w, status, string(f.Code), f.Message)
}
