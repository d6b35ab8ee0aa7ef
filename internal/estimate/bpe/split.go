package bpe

// A splitter returns the end of the piece that starts at s[i], i < len(s). It
// looks at nothing before i, and each does by hand what the regular expression
// of its encoding does.
type splitter uint8

const (
	splitGPT2 splitter = iota + 1
	splitCL100K
	splitO200K
	splitQwen     // cl100k's, but each digit by itself
	splitTekken   // o200k's, but each digit by itself, and no contractions
	splitDeepSeek // split_deepseek.go
)

func (p splitter) next(s []byte, i int) int {
	switch p {
	case splitO200K:
		return nextO200K(s, i)
	case splitCL100K:
		return nextCL100K(s, i, 3)
	case splitQwen:
		return nextCL100K(s, i, 1)
	case splitTekken:
		return nextTekken(s, i)
	case splitDeepSeek:
		return nextDeepSeek(s, i)
	default:
		return nextGPT2(s, i)
	}
}

// nextO200K: a word with its case, one character before it and a contraction
// behind it, up to three digits, symbols with what ends a line, or blanks.
func nextO200K(s []byte, i int) int {
	if end := plainWord(s, i); end > 0 {
		if end < len(s) && s[end] == '\'' {
			return contraction(s, end)
		}
		return end
	}
	end, isWord := nextCased(s, i, 3)
	if isWord {
		return contraction(s, end)
	}
	return end
}

// nextTekken is nextO200K without contractions, and with one digit.
func nextTekken(s []byte, i int) int {
	if end := plainWord(s, i); end > 0 {
		return end
	}
	end, _ := nextCased(s, i, 1)
	return end
}

// nextCased returns the end of the piece at s[i] where words have a case, and
// whether it is a word; a number has at most so many digits.
func nextCased(s []byte, i, most int) (end int, isWord bool) {
	c, w := classAt(s, i)
	switch {
	case c&letters != 0:
		end, _ := word(s, i)
		return end, true
	case c == number:
		return digits(s, i, most), false
	case c == newline:
		return spaces(s, i), false
	}
	p := i + w
	if p < len(s) {
		end, cased := word(s, p)
		if c == mark && (end == p || !cased) {
			return p, true // the mark is a word without a prefix
		}
		if end > p {
			return end, true
		}
	} else if c == mark {
		return p, false
	}
	if end := symbolRun(s, i, c, p); end > 0 {
		for end < len(s) && (s[end] == '\n' || s[end] == '\r' || s[end] == '/') {
			end++
		}
		return end, false
	}
	return spaces(s, i), false
}

// plainWord returns the end of the commonest kind of word at s[i]: of ASCII, in
// lower case but for its first letter, with a blank before it or without. 0:
// it is another kind, or none. A contraction behind it is not part of it.
func plainWord(s []byte, i int) int {
	if s[i] == ' ' {
		i++
	}
	if i+1 >= len(s) {
		return 0
	}
	if asciiClass[s[i]] == upper {
		i++
	}
	if asciiClass[s[i]] != lower {
		return 0
	}
	return lowerRun(s, i)
}

// word returns the end of the longest word that starts at s[i]: upper letters,
// then lower ones. Caseless letters and marks are both. It returns i if there is
// none; cased is false if all of it is upper.
func word(s []byte, i int) (end int, cased bool) {
	j, both := i, -1
	for j < len(s) {
		c, w := classAt(s, j)
		if c&(upper|caseless|mark) == 0 {
			if c == lower {
				return lowerRun(s, j), true
			}
			break
		}
		j += w
		if c != upper {
			both = j
		}
	}
	if both >= 0 {
		return both, true
	}
	return j, false
}

// nextCL100K: a contraction, letters and one character before them, so many
// digits at most, symbols with what ends a line, or blanks.
func nextCL100K(s []byte, i, most int) int {
	c, w := classAt(s, i)
	switch {
	case c&letters != 0:
		return letterRun(s, i+w)
	case c == number:
		return digits(s, i, most)
	case c == newline:
		return spaces(s, i)
	}
	if end := contraction(s, i); end > i {
		return end
	}
	p := i + w
	if end := letterRun(s, p); end > p {
		return end
	}
	if end := symbolRun(s, i, c, p); end > 0 {
		for end < len(s) && (s[end] == '\n' || s[end] == '\r') {
			end++
		}
		return end
	}
	return spaces(s, i)
}

// nextGPT2 serves p50k and r50k: a contraction in lower case, letters, digits
// or symbols with one blank before them, or blanks.
func nextGPT2(s []byte, i int) int {
	if s[i] == '\'' && i+1 < len(s) && (s[i+1] >= 'a' && s[i+1] <= 'z') {
		if end := contraction(s, i); end > i && (end == i+2 || s[end-1] >= 'a') {
			return end
		}
	}
	p := i
	if s[i] == ' ' && i+1 < len(s) {
		p++
	}
	c, w := classAt(s, p)
	switch {
	case c&letters != 0:
		return letterRun(s, p+w)
	case c == number:
		return run(s, p+w, number)
	case c&symbols != 0:
		return run(s, p+w, symbols)
	}
	return gpt2Spaces(s, i)
}

// contraction returns the end of an English contraction ('s 't 're 've 'm 'll
// 'd, in any case, the long s included) at s[i], or i.
func contraction(s []byte, i int) int {
	if i+1 >= len(s) || s[i] != '\'' {
		return i
	}
	switch s[i+1] | 0x20 {
	case 's', 't', 'm', 'd':
		return i + 2
	case 'r', 'v':
		if i+2 < len(s) && s[i+2]|0x20 == 'e' {
			return i + 3
		}
	case 'l':
		if i+2 < len(s) && s[i+2]|0x20 == 'l' {
			return i + 3
		}
	case 0xc5 | 0x20:
		if i+2 < len(s) && s[i+1] == 0xc5 && s[i+2] == 0xbf {
			return i + 3
		}
	}
	return i
}

// digits returns the end of so many numeric characters at most from s[i] on.
func digits(s []byte, i, most int) int {
	for range most {
		if i >= len(s) {
			break
		}
		c, w := classAt(s, i)
		if c != number {
			break
		}
		i += w
	}
	return i
}

// symbolRun returns the end of the run of symbols at s[i], a character of
// class c that ends at p, or at p if s[i] is a blank. 0: there is none.
func symbolRun(s []byte, i int, c class, p int) int {
	if c&symbols != 0 {
		return run(s, p, symbols)
	}
	if s[i] != ' ' {
		return 0
	}
	if end := run(s, p, symbols); end > p {
		return end
	}
	return 0
}

// spaces returns the end of the piece of white space at s[i]: up to the last
// line end of the run; else the run, but for its last character when something
// follows that it belongs to.
func spaces(s []byte, i int) int {
	end, last, lineEnd := blankRun(s, i)
	if lineEnd > 0 {
		return lineEnd
	}
	return withoutLast(s, i, end, last)
}

// gpt2Spaces is spaces without the rule of line ends.
func gpt2Spaces(s []byte, i int) int {
	end, last, _ := blankRun(s, i)
	return withoutLast(s, i, end, last)
}

// blankRun returns the end of the run of white space at s[i], where its last
// character starts, and where its last line end ends; 0: it has none.
func blankRun(s []byte, i int) (end, last, lineEnd int) {
	end, last = i, i
	for end < len(s) {
		c, w := classAt(s, end)
		if c&blanks == 0 {
			break
		}
		last = end
		end += w
		if c == newline {
			lineEnd = end
		}
	}
	return end, last, lineEnd
}

// withoutLast is the end of a run of white space from i, without its last
// character if there is another and something follows.
func withoutLast(s []byte, i, end, last int) int {
	if end == len(s) || last == i {
		return end
	}
	return last
}
