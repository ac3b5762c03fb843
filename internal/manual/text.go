package manual

import (
	"regexp"
	"strings"
)

const width = 78 // columns of a page's source

// escape returns s so that roff prints it as it is, and in a shape that can be
// copied into a shell.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\e`, `-`, `\-`, `'`, `\(aq`, "`", `\(ga`, `^`, `\(ha`, `~`, `\(ti`).Replace(s)
}

// bold returns a word that a user types.
func bold(s string) string { return `\fB` + escape(s) + `\fR` }

var sentence = regexp.MustCompile(`([.;:!?]) ([A-Z"\[(])`)

// prose writes a paragraph: each sentence begins a line, as roff wants it.
func prose(b *strings.Builder, text string) {
	text = sentence.ReplaceAllString(strings.Join(strings.Fields(text), " "), "$1\n$2")
	for line := range strings.SplitSeq(text, "\n") {
		for {
			cut := len(line)
			if cut > width-20 { // escapes lengthen a line
				cut = strings.LastIndexByte(line[:width-20], ' ')
			}
			if cut < 0 {
				cut = len(line)
			}
			write(b, escape(line[:cut]))
			if cut == len(line) {
				break
			}
			line = line[cut+1:]
		}
	}
}

// write writes a line of text, which must not be taken for a request.
func write(b *strings.Builder, line string) {
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, `\(aq`) {
		line = `\&` + line
	}
	b.WriteString(line + "\n")
}

// Text returns a help's text in man(7): its paragraphs, its examples, which are
// indented by four columns, and its lists, whose tags are indented by two, and
// whose texts by eight.
func Text(text string) string {
	var b strings.Builder
	for block := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		switch {
		case strings.HasPrefix(block, "    "):
			example(&b, block)
		case strings.HasPrefix(block, "  "):
			list(&b, block)
		default:
			b.WriteString(".PP\n")
			prose(&b, block)
		}
	}
	return strings.TrimPrefix(b.String(), ".PP\n")
}

// example writes lines as they are, without their common indentation.
func example(b *strings.Builder, block string) {
	lines := strings.Split(strings.TrimRight(block, "\n"), "\n")
	indent := len(lines[0]) - len(strings.TrimLeft(lines[0], " "))
	b.WriteString(".PP\n.RS 4\n.EX\n")
	for _, line := range lines {
		write(b, escape(strings.TrimPrefix(line, strings.Repeat(" ", indent))))
	}
	b.WriteString(".EE\n.RE\n")
}

// list writes tags and their texts.
func list(b *strings.Builder, block string) {
	var tag, text string
	end := func() {
		if tag != "" {
			b.WriteString(".TP\n" + bold(tag) + "\n")
			prose(b, text)
		}
		tag, text = "", ""
	}
	for line := range strings.SplitSeq(block, "\n") {
		body := strings.TrimLeft(line, " ")
		switch indent := len(line) - len(body); {
		case indent >= 8:
			text += " " + body
		case indent >= 4: // of a long tag
			tag += " " + body
		default:
			end()
			tag = body
		}
	}
	end()
}
