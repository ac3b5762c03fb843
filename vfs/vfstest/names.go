package vfstest

import (
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

func testRoot(r *testFS) {
	a := r.getAttr(r.root)
	assert.Equal(r, vfs.TypeDir, a.Type)
	assert.Equal(r, r.c.UID, a.UID)
	assert.Equal(r, r.root, r.lookupName(r.root, "."))
	assert.Equal(r, r.root, r.lookupName(r.root, ".."), "the root has no parent")
	_, err := r.fs.Rmdir(r.ctx, r.c, r.root, ".")
	assert.ErrorIs(r, err, errInval) // RFC 1813, Section 3.3.13
	_, err = r.fs.Rmdir(r.ctx, r.c, r.root, "..")
	assert.ErrorIs(r, err, errExist)
}

func testLookup(r *testFS) {
	d := r.createDir(r.root, "d")
	e := r.createDir(d, "e")
	f := r.createFile(e, "f", "data")
	h, obj, dir, err := r.fs.Lookup(r.ctx, r.c, e, "f")
	require.NoError(r, err)
	assert.Equal(r, f, h)
	assert.Equal(r, vfs.MaybeAttr{OK: true, Attr: r.getAttr(f)}, obj)
	assert.Equal(r, vfs.MaybeAttr{OK: true, Attr: r.getAttr(e)}, dir)
	assert.Equal(r, e, r.lookupName(e, "."))
	assert.Equal(r, d, r.lookupName(e, ".."))
	assert.Equal(r, r.root, r.lookupName(d, ".."))

	_, obj, dir, err = r.fs.Lookup(r.ctx, r.c, e, "none")
	assert.ErrorIs(r, err, errNoEnt)
	assert.False(r, obj.OK)
	assert.Equal(r, vfs.MaybeAttr{OK: true, Attr: r.getAttr(e)}, dir, "attributes with an error")
	_, _, _, err = r.fs.Lookup(r.ctx, r.c, f, "x")
	assert.ErrorIs(r, err, errNotDir)
}

// nameOps returns the operations that take a name, applied to an object made
// for the test.
func nameOps(r *testFS) map[string]func(name string) error {
	f := r.createFile(r.root, "nameops", "")
	return map[string]func(string) error{
		"lookup": func(n string) error { _, _, _, err := r.fs.Lookup(r.ctx, r.c, r.root, n); return err },
		"create": func(n string) error {
			_, err := r.fs.Create(r.ctx, r.c, r.root, n, guardedCreate(0o644))
			return err
		},
		"exclusive": func(n string) error {
			_, err := r.fs.Create(r.ctx, r.c, r.root, n, vfs.CreateHow{Mode: vfs.Exclusive})
			return err
		},
		"mkdir":   func(n string) error { _, err := r.fs.Mkdir(r.ctx, r.c, r.root, n, modeAttr(0o755)); return err },
		"symlink": func(n string) error { _, err := r.fs.Symlink(r.ctx, r.c, r.root, n, "t", vfs.SetAttr{}); return err },
		"mknod": func(n string) error {
			_, err := r.fs.Mknod(r.ctx, r.c, r.root, n, vfs.TypeFIFO, vfs.Dev{}, modeAttr(0o644))
			return err
		},
		"remove":      func(n string) error { _, err := r.fs.Remove(r.ctx, r.c, r.root, n); return err },
		"rmdir":       func(n string) error { _, err := r.fs.Rmdir(r.ctx, r.c, r.root, n); return err },
		"rename from": func(n string) error { _, _, err := r.fs.Rename(r.ctx, r.c, r.root, n, r.root, "x"); return err },
		"rename to": func(n string) error {
			_, _, err := r.fs.Rename(r.ctx, r.c, r.root, "nameops", r.root, n)
			return err
		},
		"link": func(n string) error { _, _, err := r.fs.Link(r.ctx, r.c, f, r.root, n); return err },
	}
}

func testNamesRefused(r *testFS) {
	for op, do := range nameOps(r) {
		for _, name := range []string{"", "a/b", "/", "/etc", "a\x00b", "../x", "a/"} {
			assert.ErrorIs(r, do(name), errAccess, "%s of %q", op, name) // RFC 1813, Section 3.2
		}
		assert.ErrorIs(r, do(strings.Repeat("n", 256)), errNameLong, op)
		assert.ErrorIs(r, do(strings.Repeat("n", 70000)), errNameLong, op)
		if op == "lookup" {
			continue
		}
		for _, name := range []string{".", ".."} {
			assert.Error(r, do(name), "%s of %q", op, name)
		}
	}
	assert.Equal(r, []string{"nameops"}, r.listNames(r.root), "no entry was made")
}

// testNamesOdd checks that names are arbitrary bytes.
func testNamesOdd(r *testFS) {
	odd := []string{"\xff\xfe\x80", " ", "...", "a\nb", "-rf", "\x01", "ümlaut", "e\u0301", "é", strings.Repeat("x", 255), "A", "a"}
	handles := make(map[vfs.Handle]string)
	for _, name := range odd {
		handles[r.createFile(r.root, name, name)] = name
	}
	assert.Len(r, handles, len(odd))
	assert.ElementsMatch(r, odd, r.listNames(r.root))
	for h, name := range handles {
		assert.Equal(r, h, r.lookupName(r.root, name))
		assert.Equal(r, name, r.readFile(h))
		r.renameName(r.root, name, r.root, "moved")
		r.removeFile(r.root, "moved")
	}
}
