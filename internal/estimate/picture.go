package estimate

import (
	"strconv"
	"strings"

	"llmgw/internal/dialect"
	"llmgw/internal/tokens"
)

// partialPicture is what each unfinished picture of a stream costs.
const partialPicture = 100

// pictureOutput is what a model that bills pictures by tokens produces for one;
// false for all others. What the request leaves to the provider, or what is no
// size or quality that is known, is taken to be the largest.
func pictureOutput(name string, p dialect.Picture) (tokens.Count, bool) {
	short := shortName(name)
	var n tokens.Count
	switch {
	case strings.HasPrefix(short, "gpt-image-1"):
		n = sizedPicture(p)
	case strings.HasPrefix(short, "gpt-image"), strings.HasPrefix(short, "chatgpt-image"):
		n = measuredPicture(p)
	default:
		return 0, false
	}
	return tokens.Add(n, tokens.Mul(partialPicture, p.Partial)), true
}

// sizedPicture is OpenAI's table for gpt-image-1 and 1.5, and not less than what
// its mini costs. Both name what they cost by three sizes.
func sizedPicture(p dialect.Picture) tokens.Count {
	row := [3]tokens.Count{4160, 6240, 6208}
	switch p.Quality {
	case "low":
		row = [3]tokens.Count{272, 408, 400}
	case "medium":
		row = [3]tokens.Count{1056, 1584, 1568}
	}
	switch p.Size {
	case "1024x1024":
		return row[0]
	case "1536x1024":
		return row[2]
	}
	return row[1]
}

// The bounds of a picture of gpt-image-2 and later.
const (
	largestPicture = 1024 // either side of the largest that is made unasked: it costs more than longer ones
	largestArea    = 3840 * 2160
)

// measuredPicture is the rule of OpenAI's calculator for gpt-image-2: so many
// parts a side by the quality, fewer on the short one, more with the area.
func measuredPicture(p dialect.Picture) tokens.Count {
	parts := 96
	switch p.Quality {
	case "low":
		parts = 16
	case "medium":
		parts = 48
	}
	long, short := pixels(p.Size)
	across := (2*parts*short + long) / (2 * long)
	const offset, scale = 2_000_000, 4_000_000
	return tokens.Count((parts*across*(offset+min(long*short, largestArea)) + scale - 1) / scale)
}

// pixels reads a size such as 1536x1024: its longer side first.
func pixels(size string) (long, short int) {
	w, h, _ := strings.Cut(size, "x")
	a, err1 := strconv.ParseUint(w, 10, 16)
	b, err2 := strconv.ParseUint(h, 10, 16)
	if err1 != nil || err2 != nil || a == 0 || b == 0 {
		return largestPicture, largestPicture
	}
	return int(max(a, b)), int(min(a, b))
}

// pictures counts what a form for pictures holds: its prompt, and pictures
// whose size is not known.
func (r *reader) pictures(c *dialect.Call) {
	p := c.Picture
	if p.Prompt.End <= len(c.Body) && !p.Prompt.Empty() {
		r.t.text += r.plain(c.Body[p.Prompt.Start:p.Prompt.End])
	}
	each := r.imageTokens(nil, nil)
	if p.Fidelity == "high" {
		each += faithfulSource
	}
	r.t.images += min(p.Sources, maxSources) * each
}

// faithfulSource is what a picture costs more that is to be kept to: 4,160 for
// a square, and this for others.
const faithfulSource = 6240

// maxSources is how many pictures of a form are counted: more than any API
// takes.
const maxSources = 1000
