package exports

import (
	"bytes"
	"slices"
	"strings"
)

// With returns a file with an additional line, which exports a path to clients. A client is
// HOST or HOST(OPTIONS). The caller parses the result, which reveals errors in path and
// clients.
func With(text []byte, path string, clients ...string) []byte {
	text = bytes.Clone(text)
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	if bytes.HasSuffix(text, []byte("\\\n")) || bytes.HasSuffix(text, []byte("\\\r\n")) {
		text = append(text, '\n') // the last line ends here
	}
	words := []string{quoteWord(path)}
	for _, c := range clients {
		words = append(words, quoteWord(c))
	}
	return append(text, strings.Join(words, " ")+"\n"...)
}

// Without returns a file without the lines for a path, and their number. Everything else stays
// as it was, down to comments on their own lines.
func Without(text []byte, path string) (rest []byte, lines int) {
	s := newScanner(new(report), text)
	copied := 0 // number of text bytes that are in rest, or left out
	for {
		at, line := len(text)-len(s.rest), s.pos.line
		words := s.readLine()
		if len(words) == 0 {
			break
		}
		if name, err := exportPath(words[0].text); err != nil || name != path {
			continue
		}
		begin := at + lineOffset(text[at:], words[0].from.line-line)
		rest = append(rest, text[copied:begin]...)
		copied = len(text) - len(s.rest)
		lines++
	}
	return slices.Concat(rest, text[copied:]), lines
}

// lineOffset returns the offset after some lines.
func lineOffset(text []byte, lines int32) (n int) {
	for ; lines > 0; lines-- {
		n += bytes.IndexByte(text[n:], '\n') + 1
	}
	return n
}
