package manual

import (
	"regexp"
	"strings"
)

const pageWidth = 78 // columns in a page's source

// escapeRoff returns s so that roff prints it unchanged, and in a form that can be
// copied into a shell.
func escapeRoff(s string) string {
	return strings.NewReplacer(`\`, `\e`, `-`, `\-`, `'`, `\(aq`, "`", `\(ga`, `^`, `\(ha`, `~`, `\(ti`).Replace(s)
}

// boldWord returns a word that a user types.
func boldWord(s string) string { return `\fB` + escapeRoff(s) + `\fR` }

var sentenceEnd = regexp.MustCompile(`([.;:!?]) ([A-Z"\[(])`)

// writeParagraph writes a paragraph: each sentence begins a line, as roff requires.
func writeParagraph(b *strings.Builder, text string) {
	text = sentenceEnd.ReplaceAllString(strings.Join(strings.Fields(text), " "), "$1\n$2")
	for line := range strings.SplitSeq(text, "\n") {
		for {
			cut := len(line)
			if cut > pageWidth-20 { // escapes lengthen a line
				cut = strings.LastIndexByte(line[:pageWidth-20], ' ')
			}
			if cut < 0 {
				cut = len(line)
			}
			writeLine(b, escapeRoff(line[:cut]))
			if cut == len(line) {
				break
			}
			line = line[cut+1:]
		}
	}
}

// writeLine writes a line of text, which must not be parsed as a request.
func writeLine(b *strings.Builder, line string) {
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, `\(aq`) {
		line = `\&` + line
	}
	b.WriteString(line + "\n")
}

// Text returns a help text in man(7) form: its paragraphs, its examples, which are
// indented by four columns, and its lists, whose tags are indented by two, and
// whose texts by eight.
func Text(text string) string {
	var b strings.Builder
	for block := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		switch {
		case strings.HasPrefix(block, "    "):
			writeExample(&b, block)
		case strings.HasPrefix(block, "  "):
			writeList(&b, block)
		default:
			b.WriteString(".PP\n")
			writeParagraph(&b, block)
		}
	}
	return strings.TrimPrefix(b.String(), ".PP\n")
}

// writeExample writes lines unchanged, without their common indentation.
func writeExample(b *strings.Builder, block string) {
	lines := strings.Split(strings.TrimRight(block, "\n"), "\n")
	indent := len(lines[0]) - len(strings.TrimLeft(lines[0], " "))
	b.WriteString(".PP\n.RS 4\n.EX\n")
	for _, line := range lines {
		writeLine(b, escapeRoff(strings.TrimPrefix(line, strings.Repeat(" ", indent))))
	}
	b.WriteString(".EE\n.RE\n")
}

// writeList writes tags and their texts.
func writeList(b *strings.Builder, block string) {
	var tag, text string
	end := func() {
		if tag != "" {
			b.WriteString(".TP\n" + boldWord(tag) + "\n")
			writeParagraph(b, text)
		}
		tag, text = "", ""
	}
	for line := range strings.SplitSeq(block, "\n") {
		body := strings.TrimLeft(line, " ")
		switch indent := len(line) - len(body); {
		case indent >= 8:
			text += " " + body
		case indent >= 4: // rest of a long tag
			tag += " " + body
		default:
			end()
			tag = body
		}
	}
	end()
}
