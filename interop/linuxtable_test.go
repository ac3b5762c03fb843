//go:build interop

package interop

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/pace"
)

const (
	knfsdName  = "knfsd" // the one that the others are compared with
	paceRounds = 5       // at least, for the document
	paceDoc    = "INTEROP_BENCH_DOC"

	// The table stands between these in the document.
	paceBegin = "<!-- make bench-linux: begin -->\n"
	paceEnd   = "<!-- make bench-linux: end -->\n"
)

// table is what was measured, in Markdown: least, median and greatest of the
// rounds, and of the ratios within a round.
func (m *paceMeter) table() string {
	var b strings.Builder
	b.WriteString("| what | unit | knfsd in the guest")
	for _, s := range m.servers[1:] {
		fmt.Fprintf(&b, " | %s | ratio", s.name)
	}
	b.WriteString(" |\n| --- | --- | ---:" + strings.Repeat(" | ---: | ---:", len(m.servers)-1) + " |\n")
	for part, p := range pace.Parts {
		fmt.Fprintf(&b, "| %s | %s | %s", p.Name, p.Unit, m.spread("%.0f", func(r [][]float64) float64 { return r[0][part] }))
		for i := 1; i < len(m.servers); i++ {
			fmt.Fprintf(&b, " | %s | %s",
				m.spread("%.0f", func(r [][]float64) float64 { return r[i][part] }),
				m.spread("%.2f", func(r [][]float64) float64 { return r[i][part] / r[0][part] }))
		}
		b.WriteString(" |\n")
	}
	return b.String()
}

// spread is the least, median and greatest value that of has for a round.
func (m *paceMeter) spread(format string, of func([][]float64) float64) string {
	var v []float64
	for _, r := range m.rounds {
		v = append(v, of(r))
	}
	slices.Sort(v)
	n := len(v)
	return fmt.Sprintf(format+" / "+format+" / "+format, v[0], (v[(n-1)/2]+v[n/2])/2, v[n-1])
}

// document puts the table into the document that the environment names, if it does.
func (m *paceMeter) document(b *testing.B, table string) {
	name := os.Getenv(paceDoc)
	if name == "" {
		return
	}
	old, err := os.ReadFile(name)
	require.NoError(b, err)
	head, rest, ok := strings.Cut(string(old), paceBegin)
	_, tail, ok2 := strings.Cut(rest, paceEnd)
	require.True(b, ok && ok2, "%s has no place for the table", name)
	setting := fmt.Sprintf("%d rounds; Linux %s, emulated; %s.\n", len(m.rounds), kver(b), time.Now().Format(time.DateOnly))
	require.NoError(b, os.WriteFile(name, []byte(head+paceBegin+"\n"+table+"\n"+setting+"\n"+paceEnd+tail), 0o644))
}
