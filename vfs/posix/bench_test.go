//go:build linux

package posix

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A benchmarkFS is an export with one file of 1 MiB, owned by the caller.
type benchmarkFS struct {
	f   *FS
	c   vfs.Cred
	h   vfs.Handle
	ctx context.Context
}

func newBenchmarkFS(t testing.TB, o Options) *benchmarkFS {
	r := &benchmarkFS{newExportedDir(t, "/dev/shm", o).open(t), user(), vfs.Handle{}, context.Background()}
	m, err := r.f.Create(r.ctx, &r.c, r.f.Root(), "f", vfs.CreateHow{})
	require.NoError(t, err)
	r.h = m.Handle
	_, _, _, err = r.f.Write(r.ctx, &r.c, r.h, make([]byte, 1<<20), 0, vfs.Unstable)
	require.NoError(t, err)
	return r
}

func (r *benchmarkFS) read(p []byte) error {
	_, _, _, err := r.f.Read(r.ctx, &r.c, r.h, p, 0)
	return err
}

func (r *benchmarkFS) write(p []byte) error {
	_, _, _, err := r.f.Write(r.ctx, &r.c, r.h, p, 0, vfs.Unstable)
	return err
}

func (r *benchmarkFS) getattr() error {
	_, err := r.f.GetAttr(r.ctx, &r.c, r.h)
	return err
}

func (r *benchmarkFS) lookup() error {
	_, _, _, err := r.f.Lookup(r.ctx, &r.c, r.f.Root(), "f")
	return err
}

func (r *benchmarkFS) access() error {
	_, _, err := r.f.Access(r.ctx, &r.c, r.h, ^uint32(0))
	return err
}

func (r *benchmarkFS) createRemove() error {
	if _, err := r.f.Create(r.ctx, &r.c, r.f.Root(), "new", vfs.CreateHow{}); err != nil {
		return err
	}
	_, err := r.f.Remove(r.ctx, &r.c, r.f.Root(), "new")
	return err
}

func benchKinds() map[string]Options {
	if os.Geteuid() != 0 {
		return map[string]Options{"table": tableKind()}
	}
	return kinds
}

func BenchmarkFS(b *testing.B) {
	for kind, o := range benchKinds() {
		r := newBenchmarkFS(b, o)
		run := func(name string, size int, call func([]byte) error) {
			b.Run(kind+"/"+name, func(b *testing.B) {
				p := make([]byte, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if err := call(p); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		for _, size := range []int{4 << 10, 1 << 20} {
			run(fmt.Sprint("Read", size), size, r.read)
			run(fmt.Sprint("Write", size), size, r.write)
		}
		run("GetAttr", 0, func([]byte) error { return r.getattr() })
		run("Lookup", 0, func([]byte) error { return r.lookup() })
		run("CreateRemove", 0, func([]byte) error { return r.createRemove() })
	}
}

func BenchmarkReadDirPlus(b *testing.B) {
	const files = 10000
	for kind, o := range benchKinds() {
		s := newExportedDir(b, "/dev/shm", o)
		for i := range files {
			require.NoError(b, os.WriteFile(s.path(fmt.Sprint("f", i)), nil, 0o644))
		}
		r := benchmarkFS{f: s.open(b), c: user(), ctx: context.Background()}
		time.Sleep(birthAge) // or no handle is remembered
		b.Run(kind, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _, _, err := r.f.ReadDir(r.ctx, &r.c, r.f.Root(), 0, 0, true, func(*vfs.Entry) bool { return true })
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/files, "ns/entry")
		})
	}
}

// TestAllocs checks that READ, WRITE and GETATTR make no garbage.
func TestAllocs(t *testing.T) {
	for kind, o := range benchKinds() {
		r := newBenchmarkFS(t, o)
		p := make([]byte, 4096)
		time.Sleep(birthAge)
		for name, call := range map[string]func() error{
			"read":    func() error { return r.read(p) },
			"write":   func() error { return r.write(p) },
			"getattr": r.getattr,
			"lookup":  r.lookup,
			"access":  r.access,
		} {
			if name == "lookup" && o.TableHandles {
				continue // opening the found object allocates
			}
			n := testing.AllocsPerRun(100, func() {
				if err := call(); err != nil {
					panic(err)
				}
			})
			assert.Zero(t, n, "%s, %s", kind, name)
		}
	}
}

// BenchmarkListing reads 10,000 entries with attributes, in parts of several sizes.
func BenchmarkListing(b *testing.B) {
	r := newBenchmarkFS(b, Options{})
	for i := range 10000 {
		_, err := r.f.Create(r.ctx, &r.c, r.f.Root(), fmt.Sprintf("entry-%06d", i), vfs.CreateHow{})
		require.NoError(b, err)
	}
	for _, part := range []int{20, 40, 300, 5000} {
		b.Run(fmt.Sprint(part), func(b *testing.B) {
			for b.Loop() {
				var cookie, verifier uint64
				for eof := false; !eof; {
					n := 0
					var err error
					_, verifier, eof, err = r.f.ReadDir(r.ctx, &r.c, r.f.Root(), cookie, verifier, true, func(e *vfs.Entry) bool {
						if n == part {
							return false
						}
						n++
						cookie = e.Cookie
						return true
					})
					require.NoError(b, err)
				}
			}
		})
	}
}

// BenchmarkCacheGet finds one object, and gives it back, on all processors.
func BenchmarkCacheGet(b *testing.B) {
	r := newBenchmarkFS(b, tableKind())
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			o := r.f.cache.getObject(r.h)
			r.f.cache.releaseObject(o)
		}
	})
}
