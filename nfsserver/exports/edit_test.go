package exports

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWith checks that a line is added after any end of a file, and is one line with any path.
func TestWith(t *testing.T) {
	for _, c := range []struct{ before, after string }{
		{"", "/b h(rw) *\n"},
		{"/a *", "/a *\n/b h(rw) *\n"},
		{"/a *\n", "/a *\n/b h(rw) *\n"},
		{"/a *\n# end", "/a *\n# end\n/b h(rw) *\n"},
		{"/a * \\\n", "/a * \\\n\n/b h(rw) *\n"},
		{"/a * \\", "/a * \\\n\n/b h(rw) *\n"},
		{"/a * \\\r\n", "/a * \\\r\n\n/b h(rw) *\n"},
	} {
		after := With([]byte(c.before), "/b", "h(rw)", "*")
		assert.Equal(t, c.after, string(after))
		f, err := Parse("exports", after)
		require.NoError(t, err)
		assert.Equal(t, "/b", f.Exports[len(f.Exports)-1].Path)
	}
	f, err := Parse("exports", With(nil, "/a b#\"\\\n\xff", "h(ro)"))
	require.NoError(t, err)
	assert.Equal(t, "/a b#\"\\\n\xff", f.Exports[0].Path)
	require.Len(t, f.Exports, 1)
}

func TestWithout(t *testing.T) {
	const text = "# head\n/a *(rw)\n\n/b h \\\n  i(rw) # why\n/c *\n\"/b/\" j\n/d *"
	for path, want := range map[string]string{
		"/b":    "# head\n/a *(rw)\n\n/c *\n/d *",
		"/a":    "# head\n\n/b h \\\n  i(rw) # why\n/c *\n\"/b/\" j\n/d *",
		"/d":    "# head\n/a *(rw)\n\n/b h \\\n  i(rw) # why\n/c *\n\"/b/\" j\n",
		"/none": text,
	} {
		rest, n := Without([]byte(text), path)
		assert.Equal(t, want, string(rest))
		assert.Equal(t, map[string]int{"/a": 1, "/b": 2, "/d": 1}[path], n)
	}
	rest, n := Without([]byte("/a *\n/a h"), "/a")
	assert.Equal(t, 2, n)
	assert.Empty(t, rest)
}

// FuzzEdit adds an export to any file that can be parsed, and takes it away again: every
// other export must stay as it was.
func FuzzEdit(f *testing.F) {
	f.Add([]byte("/a *(rw)\n/b h \\\n i # c\n"), "/c d")
	f.Add([]byte("\\\n/a \"*\"(ro)\r\n\\"), "/a")
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		before, err := Parse("x", text)
		if err != nil {
			return
		}
		if name, err := exportPath(path); err != nil || name != path || strings.ContainsRune(path, 0) {
			return
		}
		known := func(f *File) (all []string) {
			for _, e := range f.Exports {
				if e.Path != path {
					all = append(all, fmt.Sprint(e.Path, e.Clients))
				}
			}
			return all
		}
		added := With(text, path, "203.0.113.77(ro)")
		f, err := Parse("x", added)
		if err != nil {
			return // another filesystem identity, or too long: the caller sees it
		}
		if got := known(f); fmt.Sprint(got) != fmt.Sprint(known(before)) {
			t.Fatalf("%q: %q, before: %q", added, got, known(before))
		}
		rest, n := Without(added, path)
		if n == 0 {
			t.Fatalf("%q has no line of %q", added, path)
		}
		f, err = Parse("x", rest)
		if err != nil {
			t.Fatalf("%q: %v", rest, err)
		}
		if got := known(f); fmt.Sprint(got) != fmt.Sprint(known(before)) || len(got) != len(f.Exports) {
			t.Fatalf("%q: %q, before: %q", rest, got, known(before))
		}
	})
}
