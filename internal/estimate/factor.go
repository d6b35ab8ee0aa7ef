package estimate

// factors lead from tokens of o200k_base to those of another model, by class
// of text.
type factors [classes]float64

// startFactors are what published vocabularies and measurements give; what
// they miss is learned.
func startFactors(m model, short string) factors {
	if m.own {
		return factors{1, 1, 1, 1}
	}
	switch m.family {
	case openAI:
		return factors{1, 1, 1, 1}
	case claude:
		if since(short, 4, 7) {
			return factors{latin: 1.6, digit: 1.3, wide: 2.5, cjk: 1.5}
		}
		return factors{latin: 1.2, digit: 1.3, wide: 2.5, cjk: 1.5}
	case gemini:
		return factors{latin: 1.1, digit: 2.2, wide: 1.05, cjk: 0.85}
	case llama:
		return factors{latin: 1, digit: 1, wide: 1.2, cjk: 1}
	case qwen:
		return factors{latin: 1, digit: 2.2, wide: 1.2, cjk: 0.9}
	case deepSeek:
		return factors{latin: 1.05, digit: 1, wide: 1.15, cjk: 0.85}
	case mistral:
		return factors{latin: 1.05, digit: 2.2, wide: 1.1, cjk: 1.15}
	}
	if m.exact {
		return factors{1, 1, 1, 1}
	}
	return factors{latin: 1.1, digit: 1.5, wide: 1.3, cjk: 1.1}
}

// of is the factor of a text with so many bytes of each class.
func (f factors) of(bytes [classes]int) float64 {
	total, sum := 0, 0.0
	for c, n := range bytes {
		total += n
		sum += f[c] * float64(n)
	}
	if total == 0 {
		return f[latin]
	}
	return sum / float64(total)
}
