package request

import (
	"fmt"
	"strings"

	"llmgw/internal/fault"
)

// known are the names of the members that the dialects read or charge by. Some
// servers fold names: to them MODEL, or a long s in ſtream, is the same member,
// so that they would do what was not charged.
var known = func() map[string]bool {
	names := map[string]bool{}
	for name := range strings.FieldsSeq(`
		model models messages message system instructions input inputs prompt suffix template stream stream_options include_usage
		max_tokens max_completion_tokens max_output_tokens n_predict n best_of n_cmpl echo user safety_identifier metadata user_id
		tools functions tool_choice function_call response_format text format output_format output_config thinking reasoning
		service_tier speed background previous_response_id conversation container mcp_servers web_search_options modalities audio
		image images size quality partial_images input_fidelity voice stream_format
		contents systemInstruction system_instruction generationConfig generation_config maxOutputTokens max_output_tokens
		candidateCount candidate_count thinkingConfig cachedContent cached_content generateContentRequest requests toolConfig tool_config
		inferenceConfig maxTokens max_gen_len max_tokens_to_sample max_new_tokens textGenerationConfig maxTokenCount inputText anthropic_version
		texts documents query options num_predict num_ctx`) {
		names[name] = true
	}
	return names
}()

// folded are the known names as a server that folds reads them.
var folded = func() map[string]string {
	names := map[string]string{}
	for name := range known {
		names[fold(name)] = name
	}
	return names
}()

var longLetters = strings.NewReplacer("\u017f", "s", "\u212a", "k")

// fold is a name without the case of its letters, by Unicode's simple folding: of
// what is no ASCII only the long s and the sign of Kelvin fold to a letter of it.
func fold(name string) string {
	return strings.ToLower(longLetters.Replace(name))
}

// CheckName refuses the name of a member or of a form's field that folds to one
// that is known, and is not that name.
func CheckName(name string) error {
	if known[name] {
		return nil
	}
	if meant, ok := folded[fold(name)]; ok {
		return fault.Invalid(meant, fmt.Sprintf("The request has %.64q, which some servers take for %s: write it as the API does.", name, meant))
	}
	return nil
}
