package admin

import "net/http"

type statusBody struct {
	Status string `json:"status"`
}

// healthz says that the process answers.
func (h *handler) healthz(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, statusBody{"ok"})
}

// readyz says whether requests should come here.
func (h *handler) readyz(w http.ResponseWriter, _ *http.Request) {
	if h.config.Ready == nil {
		notServed(w)
		return
	}
	status, ready := h.config.Ready()
	if !ready {
		reply(w, http.StatusServiceUnavailable, statusBody{status})
		return
	}
	reply(w, http.StatusOK, statusBody{status})
}

func (h *handler) metrics(w http.ResponseWriter, r *http.Request, _ Account) {
	if h.config.Metrics == nil {
		notServed(w)
		return
	}
	h.config.Metrics.ServeHTTP(w, r)
}
