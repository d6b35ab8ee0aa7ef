package ollama

import (
	"llmgw/internal/dialect"
	"llmgw/internal/dialect/request"
	"llmgw/internal/dialect/watch"
	"llmgw/internal/fault"
)

var places = watch.Places{
	"":                                   watch.Usage, // counts stand at the top of the last line
	"prompt_eval_count":                  watch.Prompt,
	"eval_count":                         watch.Output,
	"model":                              watch.Model,
	"done":                               watch.Ended,
	"done_reason":                        watch.Finish,
	"error":                              watch.Failed,
	"response":                           watch.Text,
	"thinking":                           watch.Thought,
	"message.content":                    watch.Text,
	"message.thinking":                   watch.Thought,
	"message.tool_calls.*.function.name": watch.ToolText,
	"message.tool_calls.*.function.arguments": watch.ToolText,
}

// answer is how all answers are read, a line or a document alike. The server
// leaves counts of 0 out.
var answer = &watch.API{Document: watch.Tree(places), Event: watch.Tree(places), Ends: map[string]string{}, OmitsZero: true}

// Refusal implements dialect.Dialect. Ollama's errors are a string.
func (Dialect) Refusal(e *fault.Error, _ string) dialect.Document {
	return dialect.Document{ContentType: "application/json", Body: appendError(e)}
}

// ErrorEvent implements dialect.Dialect: a line, as the server's own.
func (Dialect) ErrorEvent(e *fault.Error, _ string) []byte { return appendError(e) }

func appendError(e *fault.Error) []byte {
	return append(request.AppendString([]byte(`{"error":`), e.Message), "}\n"...)
}
