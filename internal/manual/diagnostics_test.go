package manual

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSections checks that each page says which variables, messages and risks there are.
func TestSections(t *testing.T) {
	for _, page := range pages(t) {
		for _, title := range []string{"ENVIRONMENT", "DIAGNOSTICS", "SECURITY"} {
			assert.NotEmpty(t, section(t, page, title), "%s: %s", page, title)
		}
	}
}

// TestDiagnostics checks that the programs print the messages that DIAGNOSTICS explains: each part
// of a message between words in italics is in a source file.
func TestDiagnostics(t *testing.T) {
	source := readSources(t)
	tag := regexp.MustCompile(`(?m)^\.TP\n\\fB(.*)\\fR$`)
	placeholder := regexp.MustCompile(`\\fI.*?\\f[BR]`)
	plain := strings.NewReplacer(`\-`, "-", `\(aq`, "'", `\(dq`, `"`, `\&`, "")
	for _, page := range pages(t) {
		found := tag.FindAllStringSubmatch(section(t, page, "DIAGNOSTICS"), -1)
		assert.NotEmpty(t, found, page)
		for _, m := range found {
			for _, part := range placeholder.Split(m[1], -1) {
				assert.Contains(t, source, strings.TrimSpace(plain.Replace(part)), "%s: no program prints this", page)
			}
		}
	}
}

func pages(t *testing.T) []string {
	list, err := filepath.Glob("../../contrib/man/*.[58]")
	require.NoError(t, err)
	require.NotEmpty(t, list)
	return list
}

// section returns a section of a page, or "".
func section(t *testing.T, page, title string) string {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(text), "\n.SH "+title+"\n")
	body, _, _ := strings.Cut(after, "\n.SH ")
	return body
}

// readSources returns the text of all programs, in one string that assert does not print.
func readSources(t *testing.T) sources {
	var b strings.Builder
	require.NoError(t, filepath.WalkDir("../..", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		b.Write(text)
		return err
	}))
	return sources(strings.ReplaceAll(b.String(), `\"`, `"`))
}

type sources string

// GoString is what a failed assertion prints.
func (sources) GoString() string { return "the sources" }
