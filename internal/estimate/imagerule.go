package estimate

import (
	"cmp"
	"math"
	"strings"
)

// imageKind is how a model prices images.
type imageKind uint8

const (
	tiledImage   imageKind = iota // OpenAI: a base and so much for each tile of 512 pixels
	patchedImage                  // OpenAI's newer: patches of 32 pixels, times a multiplier
	claudeImage                   // Anthropic: patches of 28 pixels
	claude3Image                  // Anthropic until Claude 3.7: pixels ÷ 750
	geminiImage                   // Gemini until 2.5: 258 for each tile of 768 pixels
	fixedImage                    // Gemini 3: by resolution alone
)

// imageRule prices images. The documentation of the providers has the rules.
type imageRule struct {
	kind       imageKind
	base, tile int     // of tiledImage
	short      int     // what its short side is brought down to; 0: 768
	multiplier float64 // of patchedImage
	limit      patchLimit
	// low and original replace limit at these levels of detail of patchedImage,
	// high that of high; zero: the same.
	low, high, original patchLimit
	frame               int // what a chat's format adds for an image
}

// patchLimit is what an image is shrunk to before its patches are counted.
type patchLimit struct {
	edge int // the long side, in pixels
	most int // patches
}

// imageRuleOf returns the rule of a model.
func imageRuleOf(f family, short string) imageRule {
	has := func(starts ...string) bool {
		for _, s := range starts {
			if strings.HasPrefix(short, s) {
				return true
			}
		}
		return false
	}
	patched := func(multiplier float64) imageRule {
		return imageRule{kind: patchedImage, multiplier: multiplier, limit: patchLimit{2048, 6144}, frame: 1}
	}
	switch f {
	case claude:
		return claudeImageRule(short)
	case gemini:
		if major, _ := version(short); major >= 3 {
			return imageRule{kind: fixedImage, base: 1120}
		}
		return imageRule{kind: geminiImage, tile: 258}
	}
	switch {
	case has("gpt-4o-mini"):
		return imageRule{base: 2833, tile: 5667}
	case has("gpt-4.1-mini"):
		return patched(1.62)
	case has("gpt-4.1-nano"):
		return patched(2.46)
	case has("o4-mini"):
		return patched(1.72)
	case has("o1", "o3"):
		return imageRule{base: 75, tile: 150}
	case has("computer-use"):
		return imageRule{base: 65, tile: 129}
	case has("gpt-image", "chatgpt-image"):
		return imageRule{base: 65, tile: 129, short: 512}
	case has("gpt-5-nano"):
		return patched(1.5)
	case has("gpt-5-mini"):
		return patched(1.2)
	case fromGPT5(short) && !since(short, 5, 2):
		return imageRule{base: 70, tile: 140}
	case fromGPT5(short) && since(short, 5, 6):
		rule := patched(1.2)
		rule.limit, rule.high, rule.low = patchLimit{1 << 16, 30_000}, patchLimit{2048, 2500}, patchLimit{512, 256}
		return rule
	case fromGPT5(short) && since(short, 5, 5):
		rule := patched(1.2)
		rule.limit, rule.high, rule.low = patchLimit{6000, 10_000}, patchLimit{2048, 2500}, patchLimit{2048, 6144}
		return rule
	case fromGPT5(short) && since(short, 5, 4):
		rule := patched(1.2)
		rule.limit, rule.low, rule.original = patchLimit{2048, 2500}, patchLimit{2048, 6144}, patchLimit{6000, 10_000}
		return rule
	case fromGPT5(short):
		return patched(1.2)
	}
	return imageRule{base: 85, tile: 170}
}

func claudeImageRule(short string) imageRule {
	major, _ := version(short)
	switch {
	case since(short, 4, 7):
		return imageRule{kind: claudeImage, limit: patchLimit{2576, 4784}}
	case major == 3 || major == 2:
		return imageRule{kind: claude3Image, limit: patchLimit{1568, 1600}}
	}
	return imageRule{kind: claudeImage, limit: patchLimit{1568, 1568}}
}

// unknownSize is assumed of images that are not in the request.
var unknownSize = size{1024, 1024}

// tokens is the price of an image of a size (the zero size: not known) at a
// level of detail: low, high, original, auto or none.
func (r imageRule) tokens(s size, detail string) int {
	if s == (size{}) {
		s = unknownSize
	}
	switch r.kind {
	case patchedImage:
		return r.patched(s, detail)
	case claudeImage:
		return r.claude(s)
	case claude3Image:
		s = s.within(r.limit.edge)
		return min(r.limit.most, (s.w*s.h+749)/750)
	case geminiImage:
		if s.w <= 384 && s.h <= 384 {
			return r.tile
		}
		return r.tile * s.patches(768)
	case fixedImage:
		return r.base
	}
	return r.tiled(s, detail)
}

// tiled: fit into 2048², bring the short side down, count tiles.
func (r imageRule) tiled(s size, detail string) int {
	if detail == "low" {
		return r.base
	}
	s = s.within(2048)
	if short, most := min(s.w, s.h), cmp.Or(r.short, 768); short > most {
		s = size{max(1, s.w*most/short), max(1, s.h*most/short)}
	}
	return r.base + r.tile*s.patches(512)
}

// patched: fit the long edge, then shrink to whole patches within the budget.
func (r imageRule) patched(s size, detail string) int {
	limit := r.limit
	for _, level := range [...]struct {
		name  string
		limit patchLimit
	}{{"low", r.low}, {"high", r.high}, {"original", r.original}} {
		if detail == level.name && level.limit != (patchLimit{}) {
			limit = level.limit
		}
	}
	s = s.within(limit.edge)
	most := limit.most
	if n := s.patches(32); n > most {
		w, h := float64(s.w), float64(s.h)
		shrink := math.Sqrt(32 * 32 * float64(most) / (w * h))
		wide, high := w*shrink/32, h*shrink/32
		shrink *= min(math.Floor(wide)/wide, math.Floor(high)/high)
		s = size{max(1, int(w*shrink)), max(1, int(h*shrink))}
		return r.multiply(min(most, s.patches(32)))
	}
	return r.multiply(s.patches(32))
}

func (r imageRule) multiply(patches int) int {
	return int(math.Round(float64(patches) * r.multiplier))
}

// claude: the largest scale, up to the long edge, whose patches are within the
// most.
func (r imageRule) claude(s size) int {
	if long := max(s.w, s.h); long <= r.limit.edge && s.patches(28) <= r.limit.most {
		return s.patches(28)
	}
	low, high := 1, min(max(s.w, s.h), r.limit.edge)
	for low < high {
		if mid := (low + high + 1) / 2; s.within(mid).patches(28) <= r.limit.most {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return s.within(low).patches(28)
}

// within is s shrunk so that no side is longer than edge. Sides round to
// nearest, halves to even, as OpenAI's bills show.
func (s size) within(edge int) size {
	long := max(s.w, s.h)
	if long <= edge {
		return s
	}
	scale := func(n int) int {
		return max(1, int(math.RoundToEven(float64(n)*float64(edge)/float64(long))))
	}
	return size{scale(s.w), scale(s.h)}
}

// patches is how many squares of a side cover s.
func (s size) patches(side int) int {
	return ((s.w + side - 1) / side) * ((s.h + side - 1) / side)
}
