package main

import "strings"

const (
	helpIndent = 4
	helpWidth  = 100 // columns
)

// help describes all options.
func (o *mountOptions) help() string {
	var b strings.Builder
	var names []string
	for _, row := range o.table() {
		name := row.name
		if row.value != "" && row.value != maybe {
			name += "=" + row.value
		}
		names = append(names, name)
		if row.help != "" {
			wrap(&b, helpIndent, "  "+strings.Join(names, ", "))
			wrap(&b, 2*helpIndent, strings.Repeat(" ", 2*helpIndent)+row.help)
			names = nil
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// wrap writes a text as lines, of which all but the first are indented.
func wrap(b *strings.Builder, indent int, text string) {
	for len(text) > helpWidth {
		i := strings.LastIndexByte(text[:helpWidth], ' ')
		b.WriteString(text[:i] + "\n")
		text = strings.Repeat(" ", indent) + text[i+1:]
	}
	b.WriteString(text + "\n")
}
