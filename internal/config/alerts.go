package config

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Alerts say what people should know, and where they read it.
type Alerts struct {
	Receivers []AlertReceiver
	Rules     []AlertRule
}

// AlertReceiver is where alerts are sent.
type AlertReceiver struct {
	Name         string
	URL          string
	Format       string // json or slack
	Secret       string // signs json; empty: nothing does
	AllowPrivate bool   // addresses of this network
}

// AlertRule says when an alert is raised.
type AlertRule struct {
	Name   string
	On     string   // budget, forecast, refusals, provider_down or key_expires
	Limits []string // patterns; nil: all
	At     []int64  // percent
	Above  int64
	Within time.Duration
	For    time.Duration
	Before time.Duration
	To     []string
}

// What a rule is unless it says otherwise.
const (
	alertWithin = 5 * time.Minute
	alertFor    = time.Minute
	alertBefore = 7 * day
)

// ruleKeys are the keys that the rules of each kind have use for.
var ruleKeys = map[string][]string{
	"budget": {"limits", "at"}, "forecast": {"limits"}, "refusals": {"limits", "above", "within"},
	"provider_down": {"for"}, "key_expires": {"before"},
}

func (d *decoder) alerts(a *Alerts) func(*node) {
	return func(n *node) {
		receivers, names := map[string]*node{}, map[string]*node{}
		var rules *node
		d.object(n, fields{
			"receivers": setList(d, &a.Receivers, func(r *AlertReceiver) func(*node) { return d.receiver(r, receivers) }),
			"rules":     keep(&rules),
		})
		if rules != nil {
			setList(d, &a.Rules, func(r *AlertRule) func(*node) { return d.alertRule(r, names, receivers) })(rules)
		}
	}
}

func (d *decoder) receiver(r *AlertReceiver, names map[string]*node) func(*node) {
	return func(n *node) {
		r.Format = "json"
		d.object(n, fields{
			"name":          set(d, &r.Name, name),
			"url":           setSecret(d, &r.URL, hookAddress),
			"format":        set(d, &r.Format, oneOf("json", "slack")),
			"secret":        setSecret(d, &r.Secret, wordOrNothing),
			"allow_private": set(d, &r.AllowPrivate, boolean),
		})
		d.need(n, "a receiver", "name", "url")
		if r.Name != "" {
			d.unique(names, r.Name, n.at("name"), "a receiver")
		}
	}
}

func (d *decoder) alertRule(r *AlertRule, names, receivers map[string]*node) func(*node) {
	return func(n *node) {
		*r = AlertRule{At: []int64{80, 95, 100}, Within: alertWithin, For: alertFor, Before: alertBefore}
		d.object(n, fields{
			"name":   set(d, &r.Name, name),
			"on":     set(d, &r.On, oneOf("budget", "forecast", "refusals", "provider_down", "key_expires")),
			"limits": setList(d, &r.Limits, func(p *string) func(*node) { return set(d, p, limitPattern) }),
			"at":     setList(d, &r.At, func(p *int64) func(*node) { return set(d, p, whole(1, 1000)) }),
			"above":  set(d, &r.Above, whole(0, 1_000_000_000)),
			"within": set(d, &r.Within, duration(time.Second, time.Hour)),
			"for":    set(d, &r.For, duration(0, longest)),
			"before": set(d, &r.Before, keepTime),
			"to": setList(d, &r.To, func(to *string) func(*node) {
				return func(n *node) {
					set(d, to, name)(n)
					if *to != "" && receivers[*to] == nil {
						d.fail(n, "there is no receiver %s%s", show(n), didYouMean(n.raw, asWritten(receivers)))
					}
				}
			}),
		})
		d.need(n, "a rule", "name", "on", "to")
		if r.Name != "" {
			d.unique(names, r.Name, n.at("name"), "a rule")
		}
		if use, ok := ruleKeys[r.On]; ok {
			all := []string{"limits", "at", "above", "within", "for", "before"}
			d.refuseKeys(n, "on: "+r.On, slices.DeleteFunc(all, func(key string) bool { return slices.Contains(use, key) })...)
		}
	}
}

// limitPattern is a limit as X-LLMGW-Limited-By names it, with * for a part.
func limitPattern(s string) (string, error) {
	for part := range strings.SplitSeq(s, "/") {
		if _, err := name(strings.ReplaceAll(part, "*", "x")); err != nil || !strings.Contains(s, "/") {
			return "", errors.New("is not the name of limits such as team/*/monthly")
		}
	}
	return s, nil
}

// hookAddress is where a receiver is called. It may have a query.
func hookAddress(s string) (string, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("is not a URL that begins with http:// or https://")
	case u.User != nil:
		return "", errors.New("has a user name in it")
	}
	return s, nil
}
