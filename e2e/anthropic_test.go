package e2e

import (
	"errors"
	"net/http"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

const anthropicSuite = "anthropic-go"

func newAnthropic(key string, more ...option.RequestOption) anthropic.Client {
	return anthropic.NewClient(append([]option.RequestOption{option.WithBaseURL(here.url), option.WithAPIKey(key)}, more...)...)
}

func say(model string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model:     model,
		MaxTokens: 50,
		Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Say something."))},
	}
}

func TestAnthropicMessages(t *testing.T) {
	client := newAnthropic(plainKey(anthropicSuite))
	got, err := client.Messages.New(t.Context(), say("sim-in20-cached8-out5"))
	if err != nil {
		t.Fatal(err)
	}
	if text := got.Content[0].Text; text != "the budget of every team" {
		t.Errorf("text = %q", text)
	}
	if u := got.Usage; u.InputTokens != 12 || u.CacheReadInputTokens != 8 || u.OutputTokens != 5 {
		t.Errorf("usage = %+v, want 12 + 8 cached + 5", u)
	}
}

func TestAnthropicStream(t *testing.T) {
	client := newAnthropic(plainKey(anthropicSuite))
	stream := client.Messages.NewStreaming(t.Context(), say("sim-in20-out5"))
	var got anthropic.Message
	for stream.Next() {
		if err := got.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if text := got.Content[0].Text; text != "the budget of every team" {
		t.Errorf("text = %q", text)
	}
	if got.Usage.InputTokens != 20 || got.Usage.OutputTokens != 5 || got.StopReason != anthropic.StopReasonEndTurn {
		t.Errorf("usage = %+v, stop %s, want 20 + 5 and end_turn", got.Usage, got.StopReason)
	}
}

func TestAnthropicTools(t *testing.T) {
	client := newAnthropic(plainKey(anthropicSuite))
	params := say("sim-tool-out5")
	params.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{
		Name:        "set_budget",
		InputSchema: anthropic.ToolInputSchemaParam{Properties: map[string]any{"text": map[string]any{"type": "string"}}},
	}}}
	got, err := client.Messages.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if c := got.Content[0]; c.Name != "set_budget" || got.StopReason != anthropic.StopReasonToolUse {
		t.Errorf("content = %+v, stop %s, want a call of set_budget", c, got.StopReason)
	}
	checkArguments(t, string(got.Content[0].Input))

	stream := client.Messages.NewStreaming(t.Context(), params)
	var whole anthropic.Message
	for stream.Next() {
		if err := whole.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	checkArguments(t, string(whole.Content[0].Input))
}

func TestAnthropicCountTokens(t *testing.T) {
	client := newAnthropic(plainKey(anthropicSuite))
	got, err := client.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{
		Model:    "sim-in77",
		Messages: say("").Messages,
	})
	if err != nil || got.InputTokens != 77 {
		t.Errorf("count = %+v, %v, want 77", got, err)
	}
}

func TestAnthropicErrors(t *testing.T) {
	client := newAnthropic(plainKey(anthropicSuite), option.WithMaxRetries(0))
	for _, s := range []struct {
		model  string
		status int
		kind   anthropic.ErrorType
	}{
		{"sim-fail400", http.StatusBadRequest, anthropic.ErrorTypeInvalidRequestError},
		{"sim-fail500", http.StatusInternalServerError, anthropic.ErrorTypeAPIError},
		{"sim-fail529", 529, anthropic.ErrorTypeOverloadedError},
	} {
		t.Run(s.model, func(t *testing.T) {
			_, err := client.Messages.New(t.Context(), say(s.model))
			var got *anthropic.Error
			if !errors.As(err, &got) {
				t.Fatalf("error = %v", err)
			}
			if got.StatusCode != s.status || got.Type() != s.kind || got.RequestID == "" {
				t.Errorf("error = %d %q, request %q, want %d %q and an id", got.StatusCode, got.Type(), got.RequestID, s.status, s.kind)
			}
		})
	}
}

func TestAnthropicErrorInAStream(t *testing.T) {
	client := newAnthropic(plainKey(anthropicSuite))
	stream := client.Messages.NewStreaming(t.Context(), say("sim-chunks5-err3"))
	events := 0
	for stream.Next() {
		events++
	}
	if stream.Err() == nil || events < 3 {
		t.Errorf("error = %v after %d events, want the provider's after at least 3", stream.Err(), events)
	}
}

func TestAnthropicRefusalIsRetriedAtTheRightMoment(t *testing.T) {
	var tries attempts
	client := newAnthropic(slowKey(anthropicSuite))
	watched := option.WithMiddleware(tries.watch)
	if here.direct {
		t.Skip("Anthropic tells whole seconds, and no retry-after-ms")
	}
	if _, err := client.Messages.New(t.Context(), say("sim-out5")); err != nil {
		t.Fatalf("the first call: %v", err)
	}
	if _, err := client.Messages.New(t.Context(), say("sim-out5"), watched); err != nil {
		t.Fatalf("the second call: %v", err)
	}
	tries.checkOneRetry(t)
}

func TestAnthropicSpentQuotaIsNotRetried(t *testing.T) {
	if here.direct {
		t.Skip("only the gateway's refusals say that they should not be tried again")
	}
	var tries attempts
	client := newAnthropic(spentKey(anthropicSuite))
	watched := option.WithMiddleware(tries.watch)
	if _, err := client.Messages.New(t.Context(), say("sim-in100-out50")); err != nil {
		t.Fatalf("the first call: %v", err)
	}
	_, err := client.Messages.New(t.Context(), say("sim-in100-out50"), watched)
	var got *anthropic.Error
	if !errors.As(err, &got) || got.StatusCode != http.StatusTooManyRequests || got.Type() != anthropic.ErrorTypeRateLimitError {
		t.Fatalf("error = %v, want 429 rate_limit_error", err)
	}
	if len(tries.at) != 1 {
		t.Errorf("%d tries, want 1", len(tries.at))
	}
}

func TestAnthropicClientThatLeavesEndsTheProvidersWork(t *testing.T) {
	const model = "sim-chunks500-every20ms-tag4"
	client := newAnthropic(plainKey(anthropicSuite))
	params := say(model)
	params.MaxTokens = 500
	stream := client.Messages.NewStreaming(t.Context(), params)
	for range 6 {
		if !stream.Next() {
			t.Fatalf("the stream ended: %v", stream.Err())
		}
	}
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	if got := ended(t, model); got.Outcome != "peer_gone" || got.Chunks > 60 {
		t.Errorf("the provider saw %s after %d chunks, want peer_gone at once", got.Outcome, got.Chunks)
	}
}
