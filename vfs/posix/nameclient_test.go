//go:build linux

package posix

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A fakeClient changes names in the directories of an FS and remembers them, by the rule for
// change_info4 (RFC 8881, Section 10.8.1): an atomic change from the change attribute that
// it knows leaves it what it knows, with the change.
type fakeClient struct {
	*fakeNameCreator
	known map[vfs.Handle]*knownNames
}

type knownNames struct {
	path   string
	change uint64
	names  map[string]bool // nil: not known
}

func newFakeClient(t *testing.T, base string) (*fakeClient, *exportedDir) {
	n, s := newFakeNameCreator(t, base)
	return &fakeClient{fakeNameCreator: n, known: map[vfs.Handle]*knownNames{n.d: {path: s.path("d")}, n.e: {path: s.path("e")}}}, s
}

// applyChange applies a name change's WCC data to a directory.
func (c *fakeClient) applyChange(h vfs.Handle, w *vfs.WCC, change func(names map[string]bool)) (kept bool) {
	k := c.known[h]
	kept = w.Atomic && k.names != nil && w.Before.Change == k.change
	if kept {
		change(k.names)
	} else {
		k.names = nil
	}
	k.change = w.After.Change
	return kept
}

// readNames reads the change attribute, and lists the names if it has changed.
func (c *fakeClient) readNames(h vfs.Handle) {
	c.t.Helper()
	k := c.known[h]
	a, err := c.f.GetAttr(c.ctx, &c.c, h)
	require.NoError(c.t, err)
	if k.names != nil && a.Change == k.change {
		return
	}
	k.change, k.names = a.Change, make(map[string]bool)
	_, _, _, err = c.f.ReadDir(c.ctx, &c.c, h, 0, 0, false, func(e *vfs.Entry) bool {
		if name := string(e.Name); !isDots(name) {
			k.names[name] = true
		}
		return true
	})
	require.NoError(c.t, err)
}

// assertAgrees looks, and checks that the client knows the names that the directory has.
func (c *fakeClient) assertAgrees(h vfs.Handle, what ...any) {
	c.t.Helper()
	c.readNames(h)
	k := c.known[h]
	ents, err := os.ReadDir(k.path)
	require.NoError(c.t, err)
	var want, have []string
	for _, e := range ents {
		want = append(want, e.Name())
	}
	for name := range k.names {
		have = append(have, name)
	}
	slices.Sort(have)
	require.Equal(c.t, want, have, what...)
}

func (c *fakeClient) create(h vfs.Handle, name string) (kept bool) {
	m, err := c.f.Create(c.ctx, &c.c, h, name, vfs.CreateHow{Mode: vfs.Guarded})
	return err == nil && c.applyChange(h, &m.Dir, func(names map[string]bool) { names[name] = true })
}

func (c *fakeClient) remove(h vfs.Handle, name string) (kept bool) {
	w, err := c.f.Remove(c.ctx, &c.c, h, name)
	return err == nil && c.applyChange(h, &w, func(names map[string]bool) { delete(names, name) })
}

func (c *fakeClient) link(h vfs.Handle, name string, to vfs.Handle, next string) (kept bool) {
	o, _, _, err := c.f.Lookup(c.ctx, &c.c, h, name)
	if err != nil {
		return false
	}
	_, w, err := c.f.Link(c.ctx, &c.c, o, to, next)
	return err == nil && c.applyChange(to, &w, func(names map[string]bool) { names[next] = true })
}

func (c *fakeClient) move(h vfs.Handle, name string, to vfs.Handle, next string) (kept bool) {
	w, v, err := c.f.Rename(c.ctx, &c.c, h, name, to, next)
	if err != nil {
		return false
	}
	same := w.Before.Change == w.After.Change && v.Before.Change == v.After.Change // two names of one object
	left := func(names map[string]bool) { delete(names, name) }
	came := func(names map[string]bool) { names[next] = true }
	switch {
	case same:
		return false
	case h == to:
		return c.applyChange(h, &w, func(names map[string]bool) { left(names); came(names) })
	}
	kept = c.applyChange(h, &w, left)
	return c.applyChange(to, &v, came) && kept
}
