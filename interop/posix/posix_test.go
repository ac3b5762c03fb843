package posix

import (
	"bytes"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reachableDir makes a directory that all users can reach, as t.TempDir's are not.
func reachableDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "posix-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// runnableCases returns the cases that the current user can run. Other programs share
// the machine's file system, so cases that depend on its free space are left
// out.
func runnableCases() []string {
	var names []string
	for _, c := range slices.Concat(Cases(), ACLCases(), XattrCases()) {
		if (!c.Root || os.Getuid() == 0) && c.Name != "statfs-space" {
			names = append(names, c.Name)
		}
	}
	return names
}

func runTranscript(t *testing.T, dir string, names ...string) Transcript {
	var out bytes.Buffer
	require.NoError(t, Run(dir, &out, names...))
	tr, err := Parse(&out)
	require.NoError(t, err)
	return tr
}

// TestLocal runs the suite twice on the file system of the machine: each case
// comes to its end, sees something, sees the same again, and leaves nothing.
func TestLocal(t *testing.T) {
	dir := reachableDir(t)
	first, second := runTranscript(t, dir, runnableCases()...), runTranscript(t, dir, runnableCases()...)
	assert.Empty(t, Compare(first, second, "", nil))
	for _, name := range runnableCases() {
		assert.NotEmpty(t, first[name], name)
		for _, line := range first[name] {
			assert.NotRegexp(t, "^(stopped|not removed)", line, name)
		}
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// TestSees checks that a case of each kind reports what POSIX requires. A suite
// that observes nothing fails here.
func TestSees(t *testing.T) {
	dir := reachableDir(t)
	for name, want := range map[string]string{
		"mode-umask":       "mode of file: 0640",
		"change-rename":    "in a directory: a/file ctime, a mtime+ctime",
		"link-count":       "links of d/c: 2",
		"rename-kinds":     "dir to file: ENOTDIR",
		"unlink-open":      "links 0",
		"open-exclusive":   "dangling: EEXIST",
		"list-seek":        "9 of 9 right",
		"name-bytes":       "found: 16",
		"data-large":       "size of f: 4294967299",
		"hole-read":        `"[3 zeros]begin[9992 zeros]middle[113450 zeros]end"`,
		"map-beyond-end":   "first page: false, second: true",
		"record-lock":      "write lock of another: EAGAIN",
		"flock-duplicated": "one closed: EAGAIN",
	} {
		assert.Contains(t, runTranscript(t, dir, name)[name], want)
	}
}

func TestNames(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range Cases() {
		assert.False(t, seen[c.Name], "two cases are called %s", c.Name)
		seen[c.Name] = true
	}
	assert.Greater(t, len(seen), 250)
	assert.ErrorContains(t, Run(t.TempDir(), new(bytes.Buffer), "nosuch"), `no case "nosuch"`)
}

func TestStopped(t *testing.T) {
	p := &probe{dir: t.TempDir() + "/x"}
	require.NoError(t, p.runCase(Case{run: func(p *probe) {
		p.say("first")
		p.mustSucceed(os.Mkdir(p.pathOf("none/x"), 0o755))
		p.say("never")
	}}))
	require.Len(t, p.lines, 2)
	assert.Regexp(t, `^stopped at posix_test\.go:\d+: ENOENT$`, p.lines[1])
}

func TestDiff(t *testing.T) {
	lines := func(s string) []string { return strings.Fields(s) }
	assert.Empty(t, diffTranscripts(lines("a b c"), lines("a b c")))
	assert.Equal(t, []string{"- b", "+ x"}, diffTranscripts(lines("a b c"), lines("a x c")))
	assert.Equal(t, []string{"- b", "- c"}, diffTranscripts(lines("a b c"), lines("a")))
	assert.Equal(t, []string{"+ z", "+ d"}, diffTranscripts(lines("a b c"), lines("z a b c d")))
	assert.Equal(t, []string{"- a"}, diffTranscripts(lines("a"), nil))
}

func TestCompare(t *testing.T) {
	reference := Transcript{"same": {"x"}, "listed": {"a", "b"}, "gone": {"a"}, "wrong": {"a"}, "lost": {"a"}}
	seen := Transcript{"same": {"x"}, "listed": {"a", "c"}, "gone": {"a"}, "wrong": {"b"}}
	listed := []Difference{
		{"listed", []string{"here"}, []string{"- b", "+ c"}, "because"},
		{"gone", []string{"here"}, []string{"- a", "+ b"}, "for no reason"},
		{"wrong", []string{"elsewhere"}, []string{"- a", "+ b"}, "because"},
	}
	assert.Equal(t, []string{
		"gone: a listed difference no longer occurs: for no reason",
		"lost:\n\t- a",
		"wrong:\n\t- a\n\t+ b",
	}, slices.Sorted(slices.Values(Compare(reference, seen, "here", listed))))
}

var update = flag.Bool("update", false, "write the list into docs/posix.md")

// TestDocument asserts that docs/posix.md has the list of differences.
func TestDocument(t *testing.T) {
	const name, heading = "../../docs/posix.md", "### "
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	before, _, found := strings.Cut(string(text), heading)
	require.True(t, found)
	var list strings.Builder
	require.NoError(t, writeList(&list, Differences))
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(before+list.String()), 0o644))
	}
	assert.Equal(t, before+list.String(), string(text), "go test ./interop/posix -update mends it")
}

// TestDifferences asserts that each is of a case, once for a file system.
func TestDifferences(t *testing.T) {
	cases := make(map[string]bool)
	for _, c := range Cases() {
		cases[c.Name] = true
	}
	seen := make(map[string]bool)
	for _, d := range Differences {
		assert.True(t, cases[d.Case], "there is no case %s", d.Case)
		assert.NotEmpty(t, d.Why, d.Case)
		for _, system := range d.On {
			assert.False(t, seen[d.Case+system], "%s is listed twice for %s", d.Case, system)
			seen[d.Case+system] = true
		}
	}
}
