package vfstest

import (
	"strings"
	"syscall"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

func (r *testFS) objectKey(h vfs.Handle) string {
	r.Helper()
	b, err := r.fs.(vfs.Identifier).AppendKey([]byte("prefix"), h)
	require.NoError(r, err)
	require.Equal(r, "prefix", string(b[:6]))
	require.Greater(r, len(b), 6)
	return string(b[6:])
}

// testKeys checks that an object has one key regardless of its names, and that
// no other object has the same key.
func testKeys(r *testFS) {
	if _, ok := r.fs.(vfs.Identifier); !ok {
		r.Log("it is no Identifier")
		return
	}
	d, e := r.createDir(r.root, "d"), r.createDir(r.root, "e")
	f := r.createFile(d, "f", "data")
	keys := map[string]bool{r.objectKey(f): true, r.objectKey(d): true, r.objectKey(e): true, r.objectKey(r.root): true, r.objectKey(r.createFile(d, "g", "data")): true}
	assert.Len(r, keys, 5)
	of := r.objectKey(f)
	r.writeFile(f, "more", 4)
	r.setAttr(f, modeAttr(0o600))
	r.linkName(f, e, "linked")
	assert.Equal(r, of, r.objectKey(r.lookupName(e, "linked")))
	r.renameName(d, "f", r.root, "moved")
	assert.Equal(r, of, r.objectKey(r.lookupName(r.root, "moved")))
	r.renameName(e, "linked", d, "g")
	assert.Equal(r, of, r.objectKey(r.lookupName(d, "g")))
	ofDir := r.objectKey(d)
	r.renameName(r.root, "d", e, "d")
	assert.Equal(r, ofDir, r.objectKey(r.lookupName(e, "d")))
	if r.b.Restart != nil {
		r.restartFS(false)
		assert.Equal(r, of, r.objectKey(r.lookupName(r.root, "moved")))
		assert.Equal(r, ofDir, r.objectKey(d), "an unused object")
	}
	testNameKeys(r, e)
	bad, _ := vfs.NewHandle([]byte("x"))
	_, err := r.fs.(vfs.Identifier).AppendKey(nil, bad)
	assert.ErrorIs(r, err, vfs.ErrBadHandle)
}

// testNameKeys checks that a NameIdentifier knows the key of each name in dir.
func testNameKeys(r *testFS, dir vfs.Handle) {
	names, ok := r.fs.(vfs.NameIdentifier)
	if !ok {
		return
	}
	of := func(name string) (string, error) {
		b, err := names.AppendKeyOf([]byte("prefix"), dir, name)
		return string(b[6:]), err
	}
	for _, h := range []vfs.Handle{r.createFile(dir, "name", ""), r.createDir(dir, "below")} {
		name := "name"
		if r.getAttr(h).Type == vfs.TypeDir {
			name = "below"
		}
		key, err := of(name)
		require.NoError(r, err)
		assert.Equal(r, r.objectKey(h), key)
	}
	_, err := of("none")
	require.ErrorIs(r, err, syscall.ENOENT)
	for _, name := range []string{"", "..", "name/", strings.Repeat("n", 5000)} {
		_, err := of(name)
		require.Error(r, err)
		require.NotErrorIs(r, err, syscall.ENOENT, name)
	}
}
