package jsonscan

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Skip validates the value that starts at offset at and returns the offset
// behind it.
func Skip(data []byte, at int) (int, error) {
	if at < 0 || at >= len(data) {
		return at, &Error{max(at, 0), "a value is missing"}
	}
	if c := data[at]; c == '{' || c == '[' {
		return skipNested(data, at, nil)
	}
	return skipScalar(data, at)
}

// Look is called with the key, quotes included, of each member that a walk passes.
// It reports whether the walk looks into the member's value, too. depth is 0 for
// the members of the object that is walked, and grows with each array or object.
type Look func(key []byte, depth int) (into bool)

// skipNested is an automaton with one bit for each open level: whether it is an
// object. It recurses only once, to pass what look does not want to look into, so
// that depth costs nothing. A nil look looks into nothing.
func skipNested(data []byte, at int, look Look) (int, error) {
	var objects [MaxDepth / 64]uint64
	depth, i := 0, at
	into := true // whether the value at i is looked into
	for {
		// A value starts at i.
		if i >= len(data) {
			return i, &Error{i, "the document ends too early"}
		}
		opened := false
		switch c := data[i]; {
		case (c == '{' || c == '[') && !into:
			end, err := skipNested(data, i, nil)
			if err != nil {
				return end, err
			}
			i = end
		case c == '{', c == '[':
			if depth == MaxDepth {
				return i, &Error{i, fmt.Sprintf("nested deeper than %d levels", MaxDepth)}
			}
			word, bit := depth/64, uint64(1)<<(depth%64)
			objects[word] &^= bit
			if c == '{' {
				objects[word] |= bit
			}
			depth++
			i = space(data, i+1)
			opened = true
		default:
			end, err := skipScalar(data, i)
			if err != nil {
				return end, err
			}
			i = end
		}
		// Behind a value, or just inside a level.
		for {
			if !opened {
				i = space(data, i)
			}
			if i >= len(data) {
				return i, &Error{i, "the document ends too early"}
			}
			object := objects[(depth-1)/64]>>((depth-1)%64)&1 == 1
			c := data[i]
			if object && c == '}' || !object && c == ']' {
				i++
				depth--
				opened = false
				if depth == 0 {
					return i, nil
				}
				continue
			}
			if !opened {
				if c != ',' {
					return i, &Error{i, "a comma or the end of the level is missing"}
				}
				i = space(data, i+1)
			}
			into = true
			if object {
				key, value, err := skipKey(data, i)
				if err != nil {
					return value, err
				}
				if look != nil {
					into = look(data[i:key], depth)
				}
				i = value
			}
			break
		}
	}
}

// skipKey passes a key, its colon and the space behind it. It returns where the
// key ends and where its value begins; of an error, value is its place.
func skipKey(data []byte, at int) (key, value int, err error) {
	if at >= len(data) || data[at] != '"' {
		return at, at, &Error{at, "a key is missing"}
	}
	key, err = skipString(data, at)
	if err != nil {
		return key, key, err
	}
	value = space(data, key)
	if value >= len(data) || data[value] != ':' {
		return key, value, &Error{value, "a colon is missing"}
	}
	return key, space(data, value+1), nil
}

func skipScalar(data []byte, at int) (int, error) {
	switch data[at] {
	case '"':
		return skipString(data, at)
	case 't':
		return skipWord(data, at, "true")
	case 'f':
		return skipWord(data, at, "false")
	case 'n':
		return skipWord(data, at, "null")
	}
	return skipNumber(data, at)
}

func skipWord(data []byte, at int, word string) (int, error) {
	if len(data)-at < len(word) || string(data[at:at+len(word)]) != word {
		return at, &Error{at, "not a JSON value"}
	}
	return at + len(word), nil
}

func skipString(data []byte, at int) (int, error) {
	i := at + 1
	for {
		i = plain(data, i)
		if i >= len(data) {
			return i, &Error{i, "a string does not end"}
		}
		switch c := data[i]; {
		case c == '"':
			return i + 1, nil
		case c != '\\':
			return i, &Error{i, "a control character stands in a string"}
		}
		if i+1 >= len(data) {
			return i + 1, &Error{i + 1, "a string does not end"}
		}
		switch data[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			if hex4(data, i+2) < 0 {
				return i, &Error{i, "an escape is broken"}
			}
			i += 6
		default:
			return i, &Error{i, "an escape is unknown"}
		}
	}
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// marks has the high bit of each byte of w set that ends the plain part of a
// string: a quote, a backslash or a control character. A borrow may set it in
// bytes above such a one, too; other bits mean nothing.
func marks(w uint64) uint64 {
	return ((w - ones*0x20) | (w ^ (ones * '"') - ones) | (w ^ (ones * '\\') - ones)) &^ w
}

// plain returns the offset of the first byte from i on that ends the plain
// part of a string. It looks at 32 bytes at a time as long as there are none.
func plain(data []byte, i int) int {
	for ; i+32 <= len(data); i += 32 {
		d := data[i : i+32 : i+32]
		a, b := marks(binary.LittleEndian.Uint64(d)), marks(binary.LittleEndian.Uint64(d[8:]))
		c, e := marks(binary.LittleEndian.Uint64(d[16:])), marks(binary.LittleEndian.Uint64(d[24:]))
		if (a|b|c|e)&highs != 0 {
			break
		}
	}
	for ; i+8 <= len(data); i += 8 {
		if found := marks(binary.LittleEndian.Uint64(data[i:])) & highs; found != 0 {
			// A borrow can only mark bytes above a true one: the lowest is true.
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(data); i++ {
		if c := data[i]; c == '"' || c == '\\' || c < 0x20 {
			break
		}
	}
	return i
}

func skipNumber(data []byte, at int) (int, error) {
	i := at
	if i < len(data) && data[i] == '-' {
		i++
	}
	switch {
	case i < len(data) && data[i] == '0':
		i++
	case i < len(data) && '1' <= data[i] && data[i] <= '9':
		i = digits(data, i)
	default:
		return i, &Error{i, "not a JSON value"}
	}
	if i < len(data) && data[i] == '.' {
		end := digits(data, i+1)
		if end == i+1 {
			return end, &Error{end, "a number has no digit behind its point"}
		}
		i = end
	}
	if i < len(data) && (data[i] == 'e' || data[i] == 'E') {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		end := digits(data, i)
		if end == i {
			return end, &Error{end, "a number has no digit in its exponent"}
		}
		i = end
	}
	return i, nil
}

func digits(data []byte, i int) int {
	for i < len(data) && '0' <= data[i] && data[i] <= '9' {
		i++
	}
	return i
}

func space(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t') {
		i++
	}
	return i
}
