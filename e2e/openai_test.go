package e2e

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

const openaiSuite = "openai-go"

func newOpenAI(key string, more ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{option.WithBaseURL(here.url + "/v1"), option.WithAPIKey(key)}, more...)...)
}

func ask(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:     model,
		Messages:  []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Say something.")},
		MaxTokens: openai.Int(50),
	}
}

func TestOpenAIChat(t *testing.T) {
	client := newOpenAI(plainKey(openaiSuite))
	got, err := client.Chat.Completions.New(t.Context(), ask("sim-in20-out5"))
	if err != nil {
		t.Fatal(err)
	}
	if text := got.Choices[0].Message.Content; text != "the budget of every team" {
		t.Errorf("text = %q", text)
	}
	if got.Usage.PromptTokens != 20 || got.Usage.CompletionTokens != 5 {
		t.Errorf("usage = %+v, want 20 + 5", got.Usage)
	}
}

func TestOpenAIChatStream(t *testing.T) {
	client := newOpenAI(plainKey(openaiSuite))
	for _, s := range []struct {
		what  string
		usage bool
		want  int64
	}{
		{"usage that was asked for comes", true, 25},
		{"usage that was not asked for does not", false, 0},
	} {
		t.Run(s.what, func(t *testing.T) {
			params := ask("sim-in20-out5")
			if s.usage {
				params.StreamOptions.IncludeUsage = openai.Bool(true)
			}
			stream := client.Chat.Completions.NewStreaming(t.Context(), params)
			var acc openai.ChatCompletionAccumulator
			for stream.Next() {
				chunk := stream.Current()
				if len(chunk.Choices) == 0 && !s.usage {
					t.Errorf("a chunk without choices came: %s", chunk.RawJSON())
				}
				acc.AddChunk(chunk)
			}
			if err := stream.Err(); err != nil {
				t.Fatal(err)
			}
			if text := acc.Choices[0].Message.Content; text != "the budget of every team" {
				t.Errorf("text = %q", text)
			}
			if acc.Usage.TotalTokens != s.want {
				t.Errorf("usage = %d tokens, want %d", acc.Usage.TotalTokens, s.want)
			}
		})
	}
}

func TestOpenAITools(t *testing.T) {
	client := newOpenAI(plainKey(openaiSuite))
	params := ask("sim-tool-out5")
	params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name:       "set_budget",
		Parameters: shared.FunctionParameters{"type": "object", "properties": map[string]any{"text": map[string]any{"type": "string"}}},
	})}
	got, err := client.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	calls := got.Choices[0].Message.ToolCalls
	if len(calls) != 1 || calls[0].Function.Name != "set_budget" {
		t.Fatalf("tool calls = %+v, want one of set_budget", calls)
	}
	checkArguments(t, calls[0].Function.Arguments)

	stream := client.Chat.Completions.NewStreaming(t.Context(), params)
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		acc.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	checkArguments(t, acc.Choices[0].Message.ToolCalls[0].Function.Arguments)
}

// checkArguments checks that a tool call's arguments came whole.
func checkArguments(t *testing.T, arguments string) {
	t.Helper()
	var got struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal([]byte(arguments), &got); err != nil || got.Text != "the budget of every team" {
		t.Errorf("arguments = %q, %v", arguments, err)
	}
}

func TestOpenAIEmbeddings(t *testing.T) {
	client := newOpenAI(plainKey(openaiSuite))
	got, err := client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: "sim-in7",
		Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"one", "two"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Data) != 2 || len(got.Data[0].Embedding) == 0 || got.Usage.TotalTokens != 7 {
		t.Errorf("embeddings = %d, usage %+v, want 2 and 7 tokens", len(got.Data), got.Usage)
	}
}

func TestOpenAIResponses(t *testing.T) {
	client := newOpenAI(plainKey(openaiSuite))
	params := responses.ResponseNewParams{
		Model: "sim-in20-out5",
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Say something.")},
	}
	got, err := client.Responses.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if text := got.OutputText(); text != "the budget of every team" || got.Usage.TotalTokens != 25 {
		t.Errorf("text = %q, usage %d, want five words and 25", text, got.Usage.TotalTokens)
	}

	stream := client.Responses.NewStreaming(t.Context(), params)
	var text strings.Builder
	var total int64
	for stream.Next() {
		event := stream.Current()
		switch event.Type {
		case "response.output_text.delta":
			text.WriteString(event.Delta)
		case "response.completed":
			total = event.Response.Usage.TotalTokens
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if text.String() != "the budget of every team" || total != 25 {
		t.Errorf("stream: text = %q, usage %d, want five words and 25", text.String(), total)
	}
}

func TestOpenAIModels(t *testing.T) {
	client := newOpenAI(plainKey(openaiSuite))
	list, err := client.Models.List(t.Context())
	if err != nil || len(list.Data) == 0 {
		t.Fatalf("models = %+v, %v", list, err)
	}
	one, err := client.Models.Get(t.Context(), list.Data[0].ID)
	if err != nil || one.ID != list.Data[0].ID {
		t.Errorf("model = %+v, %v, want %s", one, err, list.Data[0].ID)
	}
}

func TestOpenAIErrors(t *testing.T) {
	client := newOpenAI(plainKey(openaiSuite), option.WithMaxRetries(0))
	for _, s := range []struct {
		model  string
		status int
		kind   string
	}{
		{"sim-fail400", http.StatusBadRequest, "invalid_request_error"},
		{"sim-fail500", http.StatusInternalServerError, "server_error"},
		{"sim-fail503", http.StatusServiceUnavailable, "server_error"},
	} {
		t.Run(s.model, func(t *testing.T) {
			_, err := client.Chat.Completions.New(t.Context(), ask(s.model))
			var got *openai.Error
			if !errors.As(err, &got) {
				t.Fatalf("error = %v", err)
			}
			if got.StatusCode != s.status || got.Type != s.kind || got.Message == "" {
				t.Errorf("error = %d %q %q, want %d %q and a message", got.StatusCode, got.Type, got.Message, s.status, s.kind)
			}
		})
	}
}

func TestOpenAIWrongKey(t *testing.T) {
	if here.direct {
		t.Skip("the simulated provider takes any key")
	}
	client := newOpenAI("sk-llmgw-nobody")
	_, err := client.Chat.Completions.New(t.Context(), ask("sim"))
	var got *openai.Error
	if !errors.As(err, &got) || got.StatusCode != http.StatusUnauthorized || got.Code != "invalid_api_key" {
		t.Errorf("error = %v, want 401 invalid_api_key", err)
	}
}

func TestOpenAIErrorInAStream(t *testing.T) {
	client := newOpenAI(plainKey(openaiSuite))
	stream := client.Chat.Completions.NewStreaming(t.Context(), ask("sim-chunks5-err3"))
	chunks := 0
	for stream.Next() {
		chunks++
	}
	if err := stream.Err(); err == nil || !strings.Contains(err.Error(), "The server had an error") {
		t.Errorf("error = %v, want the provider's", err)
	}
	if chunks < 3 {
		t.Errorf("%d chunks before it, want at least 3", chunks)
	}
}

func TestOpenAIRefusalIsRetriedAtTheRightMoment(t *testing.T) {
	var tries attempts
	client := newOpenAI(slowKey(openaiSuite))
	watched := option.WithMiddleware(tries.watch)
	model := "sim-out5"
	if here.direct {
		model = "sim-fail429x1-after700ms-tag1"
	} else if _, err := client.Chat.Completions.New(t.Context(), ask(model)); err != nil {
		t.Fatalf("the first call: %v", err)
	}
	if _, err := client.Chat.Completions.New(t.Context(), ask(model), watched); err != nil {
		t.Fatalf("the second call: %v", err)
	}
	tries.checkOneRetry(t)
}

func TestOpenAISpentQuotaIsNotRetried(t *testing.T) {
	if here.direct {
		t.Skip("only the gateway's refusals say that they should not be tried again")
	}
	var tries attempts
	client := newOpenAI(spentKey(openaiSuite))
	spend := ask("sim-in100-out50")
	watched := option.WithMiddleware(tries.watch)
	if _, err := client.Chat.Completions.New(t.Context(), spend); err != nil {
		t.Fatalf("the first call: %v", err)
	}
	_, err := client.Chat.Completions.New(t.Context(), spend, watched)
	var got *openai.Error
	if !errors.As(err, &got) || got.StatusCode != http.StatusTooManyRequests || got.Code != "insufficient_quota" || got.Type != "insufficient_quota" {
		t.Fatalf("error = %v, want 429 insufficient_quota", err)
	}
	if len(tries.at) != 1 {
		t.Errorf("%d tries, want 1", len(tries.at))
	}
	if want := "team/" + openaiSuite + "-spent/monthly"; tries.limit[0] != want {
		t.Errorf("limited by %q, want %q", tries.limit[0], want)
	}
}

func TestOpenAIClientThatLeavesEndsTheProvidersWork(t *testing.T) {
	const model = "sim-chunks500-every20ms-tag2"
	client := newOpenAI(plainKey(openaiSuite))
	params := ask(model)
	params.MaxTokens = openai.Int(500)
	stream := client.Chat.Completions.NewStreaming(t.Context(), params)
	for range 5 {
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
