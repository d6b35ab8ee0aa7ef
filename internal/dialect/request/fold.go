package request

import (
	"bytes"
	"fmt"
	"strings"

	"llmgw/internal/fault"
	"llmgw/internal/jsonscan"
)

// place is where the gateway, or a provider, reads the members of a member's value.
type place uint8

const (
	nowhere    place = iota // the value has none, or they are the client's own: a schema, arguments, metadata
	atTop                   // only if the member stands in the body's object itself
	everywhere              // wherever it stands within values that are read
)

// known are the names of the members that the dialects read or charge by. Some
// servers fold names: to them MODEL, or a long s in ſtream, is the same member,
// so that they would do what was not charged.
var known = func() map[string]place {
	names := map[string]place{}
	for name := range strings.FieldsSeq(`
		model models messages message system instructions input inputs prompt suffix template stream stream_options include_usage
		max_tokens max_completion_tokens max_output_tokens n_predict n best_of n_cmpl echo user safety_identifier metadata user_id
		tools functions tool_choice function_call response_format text format output_format output_config thinking reasoning
		service_tier speed background previous_response_id conversation container mcp_servers web_search_options modalities audio
		image images size quality partial_images input_fidelity voice stream_format
		contents systemInstruction system_instruction generationConfig generation_config maxOutputTokens max_output_tokens
		candidateCount candidate_count thinkingConfig cachedContent cached_content generateContentRequest requests toolConfig tool_config
		inferenceConfig maxTokens max_gen_len max_tokens_to_sample max_new_tokens textGenerationConfig maxTokenCount inputText anthropic_version
		texts documents query options num_predict num_ctx
		role type name arguments args parameters input_schema inputSchema detail data bytes url response json
		mimeType mime_type media_type file_id file_url ttl budget_tokens thinkingBudget thinking_budget effort max_uses`) {
		names[name] = nowhere
	}
	for name := range strings.FieldsSeq("input text") {
		names[name] = atTop
	}
	for name := range strings.FieldsSeq(`
		messages message system content contents parts systemInstruction system_instruction chat_history converse
		tools functions function tool_calls function_call toolConfig tool_config toolSpec toolUse toolResult
		functionDeclarations function_declarations functionCall functionResponse function_response output
		generationConfig generation_config thinkingConfig thinking_config thinking reasoning inferenceConfig textGenerationConfig
		requests generateContentRequest image_url video_url input_audio audio image video file document source
		inlineData inline_data fileData file_data cache_control cachePoint`) {
		names[name] = everywhere
	}
	return names
}()

// folded are the known names as a server that folds reads them.
var folded = func() map[string]string {
	names := map[string]string{}
	for name := range known {
		names[string(fold(nil, []byte(name)))] = name
	}
	return names
}()

// longestName bounds the names that are folded, in bytes: none that is known has a
// third of it, so that three bytes for a letter change nothing.
const longestName = 96

// fold appends a name without the case of its letters, by Unicode's simple folding:
// of what is no ASCII only the long s and the sign of Kelvin fold to a letter of it.
func fold(dst, name []byte) []byte {
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case 'A' <= c && c <= 'Z':
			dst = append(dst, c+'a'-'A')
		case bytes.HasPrefix(name[i:], []byte("\u017f")):
			dst = append(dst, 's')
			i++
		case bytes.HasPrefix(name[i:], []byte("\u212a")):
			dst = append(dst, 'k')
			i += 2
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// CheckName refuses the name of a member or of a form's field that folds to one
// that is known, and is not that name.
func CheckName(name string) error {
	_, err := check([]byte(name))
	return err
}

// check is CheckName, with where the members of the named member's value are read.
func check(name []byte) (place, error) {
	if where, ok := known[string(name)]; ok {
		return where, nil
	}
	if len(name) > longestName {
		return nowhere, nil
	}
	var room [longestName]byte
	if meant, ok := folded[string(fold(room[:0], name))]; ok {
		return nowhere, fault.Invalid(meant, fmt.Sprintf("The request has %.64q, which some servers take for %s: write it as the API does.", name, meant))
	}
	return nowhere, nil
}

// names checks the names of all members that are read while a body is read.
type names struct{ err error }

// look is a jsonscan.Look.
func (n *names) look(key []byte, depth int) (into bool) {
	inner := key[1 : len(key)-1]
	switch string(inner) { // most members of conversations
	case "role", "type", "id", "name", "arguments", "tool_call_id", "call_id", "tool_use_id", "description", "parameters", "input_schema":
		return false
	case "content", "parts", "tool_calls", "function":
		return true
	case "text", "input":
		return depth == 0
	}
	where, exact := known[string(inner)]
	if !exact {
		var err error
		if where, err = check(jsonscan.Text(key, nil)); err != nil && n.err == nil {
			n.err = err
		}
	}
	return where == everywhere || where == atTop && depth == 0
}
