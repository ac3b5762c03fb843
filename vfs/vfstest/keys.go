package vfstest

import (
	"strings"
	"syscall"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

func (r *rig) key(h vfs.Handle) string {
	r.Helper()
	b, err := r.fs.(vfs.Identifier).AppendKey([]byte("prefix"), h)
	require.NoError(r, err)
	require.Equal(r, "prefix", string(b[:6]))
	require.Greater(r, len(b), 6)
	return string(b[6:])
}

// testKeys checks that an object has one key regardless of its names, and that
// no other object has the same key.
func testKeys(r *rig) {
	if _, ok := r.fs.(vfs.Identifier); !ok {
		r.Log("it is no Identifier")
		return
	}
	d, e := r.dir(r.root, "d"), r.dir(r.root, "e")
	f := r.file(d, "f", "data")
	keys := map[string]bool{r.key(f): true, r.key(d): true, r.key(e): true, r.key(r.root): true, r.key(r.file(d, "g", "data")): true}
	assert.Len(r, keys, 5)
	of := r.key(f)
	r.write(f, "more", 4)
	r.setAttr(f, mode(0o600))
	r.link(f, e, "linked")
	assert.Equal(r, of, r.key(r.lookup(e, "linked")))
	r.rename(d, "f", r.root, "moved")
	assert.Equal(r, of, r.key(r.lookup(r.root, "moved")))
	r.rename(e, "linked", d, "g")
	assert.Equal(r, of, r.key(r.lookup(d, "g")))
	ofDir := r.key(d)
	r.rename(r.root, "d", e, "d")
	assert.Equal(r, ofDir, r.key(r.lookup(e, "d")))
	if r.b.Restart != nil {
		r.restart(false)
		assert.Equal(r, of, r.key(r.lookup(r.root, "moved")))
		assert.Equal(r, ofDir, r.key(d), "an unused object")
	}
	testNameKeys(r, e)
	bad, _ := vfs.NewHandle([]byte("x"))
	_, err := r.fs.(vfs.Identifier).AppendKey(nil, bad)
	assert.ErrorIs(r, err, vfs.ErrBadHandle)
}

// testNameKeys checks that a NameIdentifier knows the key of each name in dir.
func testNameKeys(r *rig, dir vfs.Handle) {
	names, ok := r.fs.(vfs.NameIdentifier)
	if !ok {
		return
	}
	of := func(name string) (string, error) {
		b, err := names.AppendKeyOf([]byte("prefix"), dir, name)
		return string(b[6:]), err
	}
	for _, h := range []vfs.Handle{r.file(dir, "name", ""), r.dir(dir, "below")} {
		name := "name"
		if r.attr(h).Type == vfs.TypeDir {
			name = "below"
		}
		key, err := of(name)
		require.NoError(r, err)
		assert.Equal(r, r.key(h), key)
	}
	_, err := of("none")
	require.ErrorIs(r, err, syscall.ENOENT)
	for _, name := range []string{"", "..", "name/", strings.Repeat("n", 5000)} {
		_, err := of(name)
		require.Error(r, err)
		require.NotErrorIs(r, err, syscall.ENOENT, name)
	}
}
