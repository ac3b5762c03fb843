package posix

import (
	"fmt"
	"io"
	"strings"
)

// WriteTable writes the differences as a table of Markdown.
func WriteTable(w io.Writer, differences []Difference) error {
	text := "| function | where | what differs (`-` tmpfs, `+` the mount) | why |\n| --- | --- | --- | --- |\n"
	for _, d := range differences {
		lines := make([]string, len(d.Lines))
		for i, line := range d.Lines {
			lines[i] = "`" + strings.ReplaceAll(line, "|", `\|`) + "`"
		}
		text += fmt.Sprintf("| %s | %s | %s | %s |\n", d.Case, strings.Join(d.On, "; "), strings.Join(lines, "<br>"), d.Why)
	}
	_, err := io.WriteString(w, text)
	return err
}
