package exports

import "bytes"

// A position is a position in a file. A word has one for each of its bytes.
type position struct{ line, col int32 }

// A word is the text between blanks, without its quotes and with its escapes resolved.
type word struct {
	text string
	from position
	at   []position // for each byte in text, and for the end
}

// dropFirst returns w without its first n bytes.
func (w word) dropFirst(n int) word { return word{text: w.text[n:], from: w.at[n], at: w.at[n:]} }

// keepFirst returns w's first n bytes.
func (w word) keepFirst(n int) word { return word{text: w.text[:n], from: w.from, at: w.at[:n+1]} }

// A scanner splits a file into words, as nfs-utils does: blanks separate words, quotes around
// any part of a word keep its blanks, \ooo is a byte in octal, a backslash at a line's end is a
// blank and continues the line, and # at the start of a word begins a comment.
type scanner struct {
	report *report
	rest   []byte
	pos    position
}

func newScanner(r *report, text []byte) *scanner {
	return &scanner{report: r, rest: text, pos: position{1, 1}}
}

// peekByte returns the next byte, and the number n of bytes for it in the file, 0 at the end. A
// backslash and the following line end count as one blank.
func (s *scanner) peekByte() (c byte, n int) {
	switch {
	case len(s.rest) == 0:
		return '\n', 0
	case bytes.HasPrefix(s.rest, []byte("\\\n")):
		return ' ', 2
	case bytes.HasPrefix(s.rest, []byte("\\\r\n")):
		return ' ', 3
	}
	return s.rest[0], 1
}

func (s *scanner) skipBytes(n int) {
	for _, c := range s.rest[:n] {
		s.pos.col++
		if c == '\n' {
			s.pos = position{s.pos.line + 1, 1}
		}
	}
	s.rest = s.rest[n:]
}

func isBlank(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' && c != '\n' }

// readLine returns the words on the next non-empty line, or none at the end.
func (s *scanner) readLine() (words []word) {
	for {
		c, n := s.peekByte()
		switch {
		case c == '\n':
			s.skipBytes(n)
			if len(words) > 0 || n == 0 {
				return words
			}
		case isBlank(c):
			s.skipBytes(n)
		case c == '#':
			s.skipComment()
		default:
			words = append(words, s.readWord())
		}
	}
}

// skipComment skips to the line's end. A backslash before it does not continue the comment, as
// in nfs-utils.
func (s *scanner) skipComment() {
	n := bytes.IndexByte(s.rest, '\n')
	if n < 0 {
		n = len(s.rest)
	}
	s.skipBytes(n)
}

func (s *scanner) readWord() word {
	var text []byte
	w := word{from: s.pos}
	add := func(c byte, n int) {
		text = append(text, c)
		w.at = append(w.at, s.pos)
		s.skipBytes(n)
	}
	quoted, quote := false, s.pos
	for {
		c, n := s.peekByte()
		switch {
		case c == '\n':
			if quoted {
				s.report.addError(quote, `a quote is not closed on its line; write another " at its end`)
			}
			return s.finishWord(w, text)
		case isBlank(c) && !quoted:
			return s.finishWord(w, text)
		case c == '"':
			quoted, quote = !quoted, s.pos
			s.skipBytes(1)
		case c == '\\' && n == 1 && startsWithOctal(s.rest[1:]):
			if s.rest[1] > '3' {
				s.report.addError(s.pos, `%s is not a byte; the largest is \377`, s.rest[:4])
			}
			add(s.rest[1]<<6|(s.rest[2]-'0')<<3|(s.rest[3]-'0'), 4)
		case c == 0:
			s.report.addError(s.pos, "a path or name cannot have a zero byte; remove it")
			s.skipBytes(1)
		default:
			add(c, n)
		}
	}
}

func (s *scanner) finishWord(w word, text []byte) word {
	w.text, w.at = string(text), append(w.at, s.pos)
	return w
}

// startsWithOctal reports whether b begins with three octal digits.
func startsWithOctal(b []byte) bool {
	if len(b) < 3 {
		return false
	}
	for _, c := range b[:3] {
		if c < '0' || c > '7' {
			return false
		}
	}
	return true
}
