package admin

import (
	"fmt"
	"net/http"
	"slices"

	"llmgw/internal/changes"
	"llmgw/internal/fault"
	"llmgw/internal/spelling"
	"llmgw/internal/tenant"
)

func (h *handler) listBlocks(w http.ResponseWriter, _ *http.Request, who Account) {
	if h.config.Blocks == nil {
		notServed(w)
		return
	}
	blocks := []tenant.Block{}
	for _, b := range h.config.Blocks.List() {
		if h.hasBlock(who, b) {
			blocks = append(blocks, b)
		}
	}
	reply(w, http.StatusOK, map[string]any{"blocks": blocks})
}

func (h *handler) addBlock(w http.ResponseWriter, r *http.Request, who Account) {
	if h.config.Blocks == nil {
		notServed(w)
		return
	}
	body, ok := readBody(w, r, maxBody)
	if !ok {
		return
	}
	block, force, err := tenant.ParseBlock(body, h.config.Now())
	if err == nil && !h.hasBlock(who, block) {
		h.forbidTeam(w, r, who)
		return
	}
	if err == nil && !force {
		err = h.knows(block)
	}
	if err == nil {
		block, err = h.config.Blocks.Add(r.Context(), block)
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	h.note(r.Context(), changes.Entry{
		By: who.Name, Action: changes.BlockAdded, Target: block.ID, Team: h.teamOf(block), To: asJSON(block), Reason: block.Reason,
	})
	w.Header().Set("Location", "/admin/v1/blocks/"+block.ID)
	reply(w, http.StatusCreated, block)
}

func (h *handler) removeBlock(w http.ResponseWriter, r *http.Request, who Account) {
	if h.config.Blocks == nil {
		notServed(w)
		return
	}
	id := r.PathValue("id")
	if who.bound() && !slices.ContainsFunc(h.config.Blocks.List(), func(b tenant.Block) bool { return b.ID == id && h.hasBlock(who, b) }) {
		h.forbidTeam(w, r, who)
		return
	}
	blocks := h.config.Blocks.List()
	known, err := h.config.Blocks.Delete(r.Context(), id)
	switch {
	case err != nil:
		storeAway(w, err)
	case !known:
		notFound(w, fmt.Sprintf("There is no block %q.", id))
	default:
		e := changes.Entry{By: who.Name, Action: changes.BlockRemoved, Target: id}
		if i := slices.IndexFunc(blocks, func(b tenant.Block) bool { return b.ID == id }); i >= 0 {
			e.Team, e.From = h.teamOf(blocks[i]), asJSON(blocks[i])
		}
		h.note(r.Context(), e)
		w.WriteHeader(http.StatusNoContent)
	}
}

// knows returns an error if no team or key in force has the name that b blocks.
// Users cannot be listed, and an address need not have called yet.
func (h *handler) knows(b tenant.Block) error {
	if h.config.Teams == nil {
		return nil
	}
	var names []string
	for _, t := range h.config.Teams() {
		switch b.Scope {
		case tenant.BlockTeam:
			names = append(names, t.Name)
		case tenant.BlockKey:
			names = append(names, keys(t)...)
		default:
			return nil
		}
	}
	if slices.Contains(names, b.Value) {
		return nil
	}
	meant := ""
	if near, ok := spelling.Nearest(b.Value, names, 2); ok {
		meant = fmt.Sprintf(" Did you mean %q?", near)
	}
	return &fault.Error{Code: fault.NotFound, Param: "value", Message: fmt.Sprintf(
		"There is no %s %.80q.%s To block a name before it is configured, add \"force\": true.", b.Scope, b.Value, meant)}
}
