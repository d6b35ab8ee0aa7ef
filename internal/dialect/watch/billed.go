package watch

import (
	"strings"

	"llmgw/internal/jsonscan"
	"llmgw/internal/tokens"
)

// billed reads what is billed besides plain tokens: parts by modality or by how
// long a cache is kept, what the provider did by the piece, and how it served
// the request.
type billed struct {
	share share
	item  item

	now    tokens.Calls // the pieces of the current event
	items  tokens.Calls // the sum of those that came one by one
	listed tokens.Calls // the most that one event listed

	tiers [Geo - Tier + 1]tokens.Tiers
	known bool // a tier was named, be it the standard one
}

// share is one entry of a list of counts.
type share struct {
	kind  string // its modality or lifetime
	count []byte
}

// item is something that the provider did.
type item struct{ kind, action string }

// open begins an object.
func (b *billed) open(id Field) {
	switch id {
	case Share, ShareMore, ShareCache, ShareOut, Lifetime:
		b.share = share{count: b.share.count[:0]}
	case Item:
		b.item = item{}
	}
}

// scalar takes a value; it reports whether the value was one of these fields.
func (b *billed) scalar(id Field, value []byte) bool {
	switch id {
	case Modality, TTL:
		b.share.kind = keep("", value)
	case ShareCount, TTLCount:
		b.share.count = append(b.share.count[:0], value[:min(len(value), maxKept)]...)
	case ItemType:
		b.item.kind = keep("", value)
	case ItemAction:
		b.item.action = keep("", value)
	case Query:
		b.now[tokens.WebSearch]++
	case Tier, Speed, Geo:
		b.known = b.known || id == Tier
		b.tiers[id-Tier] = tokens.TierOf(keep("", value))
	default:
		return false
	}
	return true
}

// shares are the fields of the counts that lists of shares stand for.
var shares = map[Field]map[string]Field{
	Share:      {"audio": AudioIn, "image": ImageIn},
	ShareMore:  {"audio": AudioIn, "image": ImageIn},
	ShareCache: {"audio": AudioCached},
	ShareOut:   {"audio": AudioOut, "image": ImageOut},
	Lifetime:   {"1h": WrittenLong},
}

// endShare adds the entry of a list to what was reported. Entries of one kind
// are added up.
func (b *billed) endShare(id Field, report *counts) {
	f, ok := shares[id][strings.ToLower(b.share.kind)]
	if !ok {
		return
	}
	if n, flaw := jsonscan.Integer(b.share.count); flaw == jsonscan.NoFlaw && n >= 0 && n <= int64(tokens.MaxCount) {
		report.put(f, tokens.Add(report.get(f), tokens.Count(n)))
	}
}

// done are the items that are billed by the piece. Of a search only the search
// itself is, not the opening of a page that it found.
var done = map[string]tokens.Piece{
	"web_search_call": tokens.WebSearch, "x_search_call": tokens.XSearch, "file_search_call": tokens.FileSearch, "code_interpreter_call": tokens.CodeInterpreter,
}

func (b *billed) endItem() {
	piece, ok := done[b.item.kind]
	if ok && (b.item.action == "" || b.item.action == "search") {
		b.now[piece]++
	}
}

// endEvent takes the pieces of an event. Those that come one by one are added
// up; a list, which the end of an answer repeats, has all of them.
func (b *billed) endEvent(single bool) {
	for piece, n := range b.now {
		if single {
			b.items[piece] += n
			continue
		}
		b.listed[piece] = max(b.listed[piece], n)
	}
	b.now = tokens.Calls{}
}

// put puts what was seen into u, where the provider has not counted it itself.
// Pictures are pieces only where no tokens are reported.
func (b *billed) put(u *tokens.Usage, counted bool) {
	for piece := range u.Calls {
		if u.Calls[piece] == 0 {
			u.Calls[piece] = max(b.items[piece], b.listed[piece])
		}
	}
	if counted {
		u.Calls[tokens.Picture] = 0
	}
	for _, t := range b.tiers {
		u.Tiers |= t
	}
}
