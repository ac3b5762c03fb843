//go:build linux

package posix

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// An attrCacheTest is a directory of two FS of one process, of which the first keeps
// attributes. Each operation takes either.
type attrCacheTest struct {
	t    *testing.T
	s    *exportedDir
	fs   [2]*FS
	root vfs.Cred
	rnd  *rand.Rand
	open []vfs.File
	h    map[string]vfs.Handle
	lazy bool // writeback changes the storage used
}

var attrNames = []string{"a", "b", "c", "d", "e", "d/a", "d/b", "e/a", "e/d"}

// anyName returns a name in a random directory, its directory's handle and the FS.
func (w *attrCacheTest) anyName() (f *FS, dir vfs.Handle, name string) {
	f, name = w.fs[w.rnd.IntN(2)], attrNames[w.rnd.IntN(len(attrNames))]
	if len(name) == 1 {
		return f, f.Root(), name
	}
	return f, w.h[name[:1]], name[2:]
}

// anyObject returns a random object that has been seen.
func (w *attrCacheTest) anyObject() (*FS, vfs.Handle) {
	f, _, _ := w.anyName()
	return f, w.h[attrNames[w.rnd.IntN(len(attrNames))]]
}

// setOldAtime makes the next read of an object move its access time (relatime).
func (w *attrCacheTest) setOldAtime(f *FS, h vfs.Handle) {
	_, _ = f.SetAttr(w.t.Context(), &w.root, h, vfs.SetAttr{AtimeHow: vfs.SetToClient, Atime: vfs.Time{Sec: 1}}, nil)
}

// changeRandom makes a random change, or reads. It may fail.
func (w *attrCacheTest) changeRandom() (what string) {
	ctx, c := w.t.Context(), &w.root
	f, dir, name := w.anyName()
	g, h := w.anyObject()
	n := w.rnd.Uint64N(200 << 10)
	mode := w.rnd.Uint32N(0o1000)
	part := vfs.Part{Handle: h, Offset: n / 2}
	steps := []struct {
		what string
		do   func()
	}{
		{"create", func() {
			_, _ = f.Create(ctx, c, dir, name, vfs.CreateHow{Attr: vfs.SetAttr{Mode: &mode, Size: &n}})
		}},
		{"exclusive create", func() {
			_, _ = f.Create(ctx, c, dir, name, vfs.CreateHow{Mode: vfs.Exclusive, Verifier: n})
		}},
		{"create and open", func() {
			_, o, err := f.CreateFile(ctx, c, dir, name, vfs.CreateHow{}, vfs.OpenRead|vfs.OpenWrite)
			if err == nil && o.Read != nil && o.Write != nil {
				w.open = append(w.open, o.Read, o.Write)
			} else {
				o.Close()
			}
		}},
		{"mkdir", func() { _, _ = f.Mkdir(ctx, c, dir, name, vfs.SetAttr{Mode: &mode}) }},
		{"symlink", func() { _, _ = f.Symlink(ctx, c, dir, name, "x", vfs.SetAttr{}) }},
		{"mknod", func() { _, _ = f.Mknod(ctx, c, dir, name, vfs.TypeFIFO, vfs.Dev{}, vfs.SetAttr{}) }},
		{"remove", func() { _, _ = f.Remove(ctx, c, dir, name) }},
		{"rmdir", func() { _, _ = f.Rmdir(ctx, c, dir, name) }},
		{"rename", func() {
			to := w.h["d"]
			if n%2 == 0 {
				to = f.Root()
			}
			_, _, _ = f.Rename(ctx, c, dir, name, to, string('a'+rune(n%5)))
		}},
		{"link", func() { _, _, _ = f.Link(ctx, c, h, dir, name) }},
		{"mode", func() { _, _ = g.SetAttr(ctx, c, h, vfs.SetAttr{Mode: &mode}, nil) }},
		{"owner", func() { _, _ = g.SetAttr(ctx, c, h, vfs.SetAttr{UID: &mode, GID: &mode}, nil) }},
		{"size", func() { _, _ = g.SetAttr(ctx, c, h, vfs.SetAttr{Size: &n}, nil) }},
		{"times", func() {
			_, _ = g.SetAttr(ctx, c, h, vfs.SetAttr{MtimeHow: vfs.SetToClient, Mtime: vfs.Time{Sec: int64(n)}, AtimeHow: vfs.SetToServer}, nil)
		}},
		{"write", func() { _, _, _, _ = g.Write(ctx, c, h, make([]byte, n%9000), n, vfs.FileSync) }},
		{"read", func() { w.setOldAtime(g, h); _, _, _, _ = g.Read(ctx, c, h, make([]byte, 100), 0) }},
		{"map", func() {
			w.setOldAtime(g, h)
			if b, _, _, err := g.Map(ctx, c, h, 0, minMapped); err == nil && b != nil {
				b.Release()
			}
		}},
		{"list", func() {
			w.setOldAtime(g, h)
			_, _, _, _ = g.ReadDir(ctx, c, h, 0, 0, n%2 == 0, func(*vfs.Entry) bool { return true })
		}},
		{"readlink", func() { w.setOldAtime(g, h); _, _, _ = g.ReadLink(ctx, c, h) }},
		{"xattr", func() { _, _ = g.SetXattr(ctx, c, h, "x", make([]byte, n%100), vfs.XattrEither) }},
		{"no xattr", func() { _, _ = g.RemoveXattr(ctx, c, h, "x") }},
		{"list of rights", func() {
			acl := append(vfs.ModeACL(mode), vfs.ACLEntry{Tag: vfs.ACLUser, ID: 7, Perm: 7}, vfs.ACLEntry{Tag: vfs.ACLMask, Perm: 5})
			slices.SortFunc(acl, func(a, b vfs.ACLEntry) int { return int(a.Tag) - int(b.Tag) })
			_, _ = g.SetACL(ctx, c, h, &acl, nil)
		}},
		{"allocate", func() { _ = g.Allocate(ctx, c, part, n+1) }},
		{"deallocate", func() { _ = g.Deallocate(ctx, c, part, n+1) }},
		{"copy", func() {
			_, from := w.anyObject()
			w.setOldAtime(g, from)
			_, _ = g.CopyRange(ctx, c, vfs.Part{Handle: from}, part, n)
		}},
		{"of an open file", func() {
			if len(w.open) < 2 {
				return
			}
			i := w.rnd.IntN(len(w.open)/2) * 2
			r, wr := w.open[i], w.open[i+1]
			switch n % 4 {
			case 0:
				_ = wr.SetSize(ctx, n)
			case 1:
				_, _, _ = wr.Write(ctx, make([]byte, 5000), n, vfs.Unstable)
			case 2:
				_, _, _ = r.Read(ctx, make([]byte, 100), 0)
			case 3:
				r.Close()
				wr.Close()
				w.open = slices.Delete(w.open, i, i+2)
			}
		}},
	}
	s := steps[w.rnd.IntN(len(steps))]
	s.do()
	return s.what
}

// checkAll compares all attributes of all objects with those of the host.
func (w *attrCacheTest) checkAll(what string) {
	ctx, f := w.t.Context(), w.fs[0]
	same := func(path string, want, got vfs.Attr) {
		if w.lazy {
			want.Used, got.Used = 0, 0
		}
		require.Equal(w.t, want, got, "%s after %s", path, what)
	}
	for _, dir := range []string{"", "d", "e"} {
		at, ok := f.Root(), true
		if dir != "" {
			at, ok = w.h[dir]
		}
		if !ok {
			continue
		}
		listed := make(map[string]vfs.Attr)
		_, _, _, err := f.ReadDir(ctx, &w.root, at, 0, 0, true, func(e *vfs.Entry) bool {
			if e.HasHandle && e.Attr.OK {
				listed[string(e.Name)] = e.Attr.Attr
			}
			return true
		})
		if err != nil {
			continue
		}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			path := name
			if dir != "" {
				path = dir + "/" + name
			}
			var st unix.Statx_t
			fd, err := openPath(f.mount, path)
			if err != nil {
				delete(w.h, path)
				require.NotContains(w.t, listed, name, "after %s", what)
				continue
			}
			require.NoError(w.t, statFD(fd, &st))
			closeFD(fd)
			h, obj, _, err := f.Lookup(ctx, &w.root, at, name)
			require.NoError(w.t, err)
			w.h[path] = h
			if path != "d" && path != "e" { // these are listed after their parent
				same(path+", listed", f.attrOfStat(&st), listed[name])
			}
			same(path+", looked up", f.attrOfStat(&st), obj.Attr)
			got, err := f.GetAttr(ctx, &w.root, h)
			require.NoError(w.t, err)
			same(path, f.attrOfStat(&st), got)
		}
	}
}

// fail makes some of the kernel's calls by an FS fail, perhaps after a part of their effect.
func (f *FS) fail() {
	var calls atomic.Uint64
	fails := func() bool { return calls.Add(1)%3 == 0 }
	sync := func(call func(fd int) error) func(fd int) error {
		return func(fd int) error {
			if fails() {
				return unix.EIO
			}
			return call(fd)
		}
	}
	d, allocate, copyRange := &f.disk, f.fallocate, f.copyRange
	d.Fsync, d.Fdatasync, d.Syncfs = sync(d.Fsync), sync(d.Fdatasync), sync(d.Syncfs)
	f.fallocate = func(fd int, mode uint32, off, n int64) error {
		if fails() {
			_ = allocate(fd, mode, off, (n+1)/2)
			return unix.ENOSPC
		}
		return allocate(fd, mode, off, n)
	}
	f.copyRange = func(in int, inOff *int64, out int, outOff *int64, n, flags int) (int, error) {
		if fails() {
			return 0, unix.EIO
		}
		return copyRange(in, inOff, out, outOff, n, flags)
	}
	f.traits.volatile = false // so that it syncs
}

// changeFewFDs is change, at times with hardly any descriptors left.
func (w *attrCacheTest) changeFewFDs() (what string) {
	if free := w.rnd.IntN(20); free < 4 {
		defer noFDs(w.t, free)()
	}
	return w.changeRandom()
}

// TestSeenAttributes holds the attributes that an exclusive FS shows to those of the host after
// each of many changes, by itself and by another FS: on a file system with free space, and on one
// that is full most of the time, whose calls fail at any point.
func TestSeenAttributes(t *testing.T) {
	vfstest.NeedRoot(t)
	for place, base := range places {
		for name, fails := range map[string]bool{"": false, ", failing": true} {
			t.Run(place+name, func(t *testing.T) {
				checkCleanup(t)
				s := newExportedDir(t, base, Options{shareYoung: true, Exclusive: true, Log: slog.New(slog.DiscardHandler)})
				if fails && base != "" {
					mountTmpfs(t, s.dir, "mode=0777,size=200k,nr_inodes=10")
				}
				w := &attrCacheTest{t: t, s: s, rnd: rand.New(rand.NewPCG(1, 5)), h: make(map[string]vfs.Handle)}
				w.fs[0] = s.open(t)
				s.o.Exclusive, s.o.StateDir = false, s.o.StateDir+"2"
				w.fs[1] = s.open(t)
				defer func() {
					for _, o := range w.open {
						o.Close()
					}
				}()
				steps, change := 2000, w.changeRandom
				if w.lazy = !w.fs[0].traits.volatile; w.lazy {
					steps = 300
				}
				if fails {
					w.fs[0].fail()
					w.fs[1].fail()
					change = w.changeFewFDs
				}
				for range steps {
					w.checkAll(change())
				}
				for i := range attrs.pages {
					for j := range attrs.pages[i].slots {
						assert.Zero(t, attrs.pages[i].slots[j].changing, "a change has not ended")
					}
				}
			})
		}
	}
}
