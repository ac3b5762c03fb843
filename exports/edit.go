package exports

import (
	"bytes"
	"slices"
	"strings"
)

// With returns a file with a line more, which exports a path to clients. A client is
// HOST or HOST(OPTIONS). The caller parses the result, which shows what is wrong with
// path and clients.
func With(text []byte, path string, clients ...string) []byte {
	text = bytes.Clone(text)
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	if bytes.HasSuffix(text, []byte("\\\n")) || bytes.HasSuffix(text, []byte("\\\r\n")) {
		text = append(text, '\n') // the last line ends here
	}
	words := []string{quote(path)}
	for _, c := range clients {
		words = append(words, quote(c))
	}
	return append(text, strings.Join(words, " ")+"\n"...)
}

// Without returns a file without the lines of a path, and their number. Everything else
// stays as it was, down to comments on lines of their own.
func Without(text []byte, path string) (rest []byte, lines int) {
	s := newScanner(new(report), text)
	kept := 0 // bytes of text that are in rest, or left out
	for {
		at, line := len(text)-len(s.rest), s.pos.line
		words := s.line()
		if len(words) == 0 {
			break
		}
		if name, err := exportPath(words[0].text); err != nil || name != path {
			continue
		}
		begin := at + offset(text[at:], words[0].from.line-line)
		rest = append(rest, text[kept:begin]...)
		kept = len(text) - len(s.rest)
		lines++
	}
	return slices.Concat(rest, text[kept:]), lines
}

// offset returns where the text after some lines begins.
func offset(text []byte, lines int32) (n int) {
	for ; lines > 0; lines-- {
		n += bytes.IndexByte(text[n:], '\n') + 1
	}
	return n
}
