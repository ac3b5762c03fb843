//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/pace"
)

const (
	knfsdName  = "knfsd in the guest" // the server that the others are compared with
	paceRounds = 5                    // at least, for the document
	paceDoc    = "INTEROP_BENCH_DOC"
)

// tableMarks returns the lines before and after the table in the document.
func (m *paceMeter) tableMarks() (begin, end string) {
	return fmt.Sprintf("<!-- make %s: begin -->\n", m.title), fmt.Sprintf("<!-- make %s: end -->\n", m.title)
}

// markdownTable returns the results in Markdown: least, median and greatest of the
// rounds, and of the ratios within a round.
func (m *paceMeter) markdownTable() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| what | unit | %s", m.servers[0].name)
	for _, s := range m.servers[1:] {
		fmt.Fprintf(&b, " | %s | ratio", s.name)
	}
	b.WriteString(" |\n| --- | --- | ---:" + strings.Repeat(" | ---: | ---:", len(m.servers)-1) + " |\n")
	for part, p := range pace.Parts(m.kind) {
		fmt.Fprintf(&b, "| %s | %s | %s", p.Name, p.Unit, m.formatSpread("%.0f", func(r [][]float64) float64 { return r[0][part] }))
		for i := 1; i < len(m.servers); i++ {
			fmt.Fprintf(&b, " | %s | %s",
				m.formatSpread("%.0f", func(r [][]float64) float64 { return r[i][part] }),
				m.formatSpread("%.2f", func(r [][]float64) float64 { return r[i][part] / r[0][part] }))
		}
		b.WriteString(" |\n")
	}
	return b.String()
}

// formatSpread returns the least, median and greatest of the values of all rounds.
func (m *paceMeter) formatSpread(format string, of func([][]float64) float64) string {
	var v []float64
	for _, r := range m.rounds {
		v = append(v, of(r))
	}
	slices.Sort(v)
	n := len(v)
	return fmt.Sprintf(format+" / "+format+" / "+format, v[0], (v[(n-1)/2]+v[n/2])/2, v[n-1])
}

// writeDocument writes the table between its marks in a document.
func (m *paceMeter) writeDocument(t testing.TB, name, kernel string) {
	old, err := os.ReadFile(name)
	require.NoError(t, err)
	begin, end := m.tableMarks()
	head, rest, ok := strings.Cut(string(old), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	require.True(t, ok && ok2, "%s has no place for the table", name)
	setting := fmt.Sprintf("%d rounds; Linux %s, %s; %s.\n", len(m.rounds), kernel, m.machine, time.Now().Format(time.DateOnly))
	require.NoError(t, os.WriteFile(name, []byte(head+begin+"\n"+m.markdownTable()+"\n"+setting+"\n"+end+tail), 0o644))
}

// TestPaceTable checks that ratios are taken within a round, and that a
// document keeps the text around the table.
func TestPaceTable(t *testing.T) {
	round := func(knfsd, ours float64) [][]float64 {
		r := [][]float64{make([]float64, len(pace.Parts(pace.Files))), make([]float64, len(pace.Parts(pace.Files)))}
		for i := range pace.Parts(pace.Files) {
			r[0][i], r[1][i] = knfsd, ours
		}
		return r
	}
	m := &paceMeter{
		title:   "bench-linux",
		machine: "emulated",
		kind:    pace.Files,
		servers: []paceServer{{name: knfsdName}, {name: "ours"}},
		rounds:  [][][]float64{round(10, 20), round(100, 50), round(40, 40)},
	}
	assert.Contains(t, m.markdownTable(), "| unlink | files/s | 10 / 40 / 100 | 20 / 40 / 50 | 0.50 / 1.00 / 2.00 |\n")

	begin, end := m.tableMarks()
	name := filepath.Join(t.TempDir(), "document")
	require.NoError(t, os.WriteFile(name, []byte("before\n"+begin+"old\n"+end+"behind\n"), 0o644))
	for range 2 {
		m.writeDocument(t, name, "6.1")
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Regexp(t, "(?s)^before\n"+begin+"\n\\| what .*\n3 rounds; Linux 6.1, emulated; .*\n"+end+"behind\n$", string(b))
		assert.NotContains(t, string(b), "old")
	}
}
