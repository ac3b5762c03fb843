package exports

import "strings"

// isValidPattern reports whether each bracket in a pattern is closed and not empty.
func isValidPattern(p string) bool {
	for {
		open := strings.IndexByte(p, '[')
		if open < 0 {
			return !strings.Contains(p, "]")
		}
		if strings.Contains(p[:open], "]") {
			return false
		}
		_, rest, ok := matchClass(p[open:], 0)
		if !ok {
			return false
		}
		p = rest
	}
}

// matchesPattern reports whether a name matches a valid pattern: * matches any characters,
// including dots, ? matches a single character, [a-z] a character in a list, [^a-z] or [!a-z] a
// character not in the list.
func matchesPattern(pattern, name string) bool {
	// If the rest does not match, the last * consumes one more character.
	star, taken, starred := "", "", false
	for {
		rest, ok := "", false
		switch {
		case pattern == "" && name == "":
			return true
		case pattern != "" && pattern[0] == '*':
			star, taken, starred = pattern[1:], name, true
			pattern = star
			continue
		case pattern == "" || name == "":
		case pattern[0] == '[':
			ok, rest, _ = matchClass(pattern, name[0])
		default:
			ok, rest = pattern[0] == '?' || pattern[0] == name[0], pattern[1:]
		}
		switch {
		case ok:
			pattern, name = rest, name[1:]
		case !starred || taken == "":
			return false
		default:
			taken = taken[1:]
			pattern, name = star, taken
		}
	}
}

// matchClass parses a list in brackets at the start of p, and reports whether c is in the list.
// It returns ok = false if there is no such list.
func matchClass(p string, c byte) (in bool, rest string, ok bool) {
	list := p[1:]
	not := strings.HasPrefix(list, "^") || strings.HasPrefix(list, "!")
	if not {
		list = list[1:]
	}
	end := strings.IndexByte(list, ']')
	if end <= 0 {
		return false, "", false
	}
	list, rest = list[:end], list[end+1:]
	for list != "" {
		low, high := list[0], list[0]
		list = list[1:]
		if len(list) > 1 && list[0] == '-' {
			high, list = list[1], list[2:]
		}
		in = in || low <= c && c <= high
	}
	return in != not, rest, true
}
