package upstream

import (
	"context"
)

type state struct{}
type turn struct{}

// New returns a Client.
func New(c Config) *Client { panic("written next") }

// Reload puts new configurations in force. What is known of a provider is kept
// by its name; calls under way end with the configuration that they began with.
func (c *Client) Reload(providers []*Provider) {}

// Close drops idle connections.
func (c *Client) Close() {}

// Do makes the call: it waits for a turn, sends, and tries again as the
// configuration of the first target allows, until there is an answer to pass
// on. ctx bounds the whole call, the reading of the answer included; ending it
// closes the provider's connection.
//
// The error is ctx's, or a *fault.Error: UpstreamCapacity (no turn in time;
// Wait says when there is one), UpstreamTimeout or UpstreamError. A provider's
// answer is no error, whatever its status.
func (c *Client) Do(ctx context.Context, j Job) (*Response, error) { panic("written next") }
