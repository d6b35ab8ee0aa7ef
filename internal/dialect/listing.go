package dialect

import (
	"net/url"
	"time"

	"llmgw/internal/tokens"
)

// Listing is where clients of an API look for what they may choose, and how
// they are shown it. The zero Listing is that of an API without one.
type Listing struct {
	// Paths are routes of GET. One that ends with :model or *model shows that
	// model; with *model its name may hold slashes.
	Paths []string
	// Asks reports whether a request at a path that several APIs have is this
	// one's. nil: it is if no other says so.
	Asks func(h Header, query url.Values) bool
	// Own hides the models that the API's clients cannot call.
	Own bool
	All func([]Listed) any
	One func(Listed) any
	// Show is a path of POST whose body names the model to show; or empty.
	Show string
	// Pages are documents that are the same for every key, Public those that need
	// none, by path.
	Pages, Public map[string]any
}

// Listed is a model as a listing shows it.
type Listed struct {
	Name      string
	Owner     string       // its first provider
	Created   time.Time    // when it came into the configuration, in UTC
	MaxOutput tokens.Count // for one choice; 0: unknown
}

// SharedPaths are the paths of models that several APIs have.
var SharedPaths = []string{"/v1/models", "/v1/models/*model", "/models", "/models/*model"}

// Page is a list that has its models under key, beside the members of more.
func Page(key string, one func(Listed) any, more map[string]any) func([]Listed) any {
	return func(models []Listed) any {
		page, shown := map[string]any{}, make([]any, len(models))
		for i, m := range models {
			shown[i] = one(m)
		}
		for k, v := range more {
			page[k] = v
		}
		page[key] = shown
		return page
	}
}
