package vfstest

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// testConcurrent checks that concurrent readers and writers of different blocks
// of one file read back the data they wrote.
func testConcurrent(r *testFS) {
	const block, blocks, rounds = 4096, 8, 30
	f := r.createFile(r.root, "f", "")
	var wg sync.WaitGroup
	for w := range blocks {
		wg.Go(func() {
			for i := range rounds {
				p := bytes.Repeat([]byte{byte(i + 1)}, block)
				n, _, wcc, err := r.fs.Write(r.ctx, r.c, f, p, uint64(w*block), vfs.Unstable)
				assert.NoError(r, err)
				assert.Equal(r, block, n)
				assert.True(r, wcc.After.OK)
				q := make([]byte, block)
				n, _, _, err = r.fs.Read(r.ctx, r.c, f, q, uint64(w*block))
				assert.NoError(r, err)
				assert.True(r, bytes.Equal(p, q[:n]), "block %d, round %d", w, i)
				if i%10 == 0 {
					_, err = r.fs.Commit(r.ctx, r.c, f, 0, 0)
					assert.NoError(r, err)
				}
			}
		})
	}
	wg.Wait()
	assert.EqualValues(r, block*blocks, r.getAttr(f).Size)
}

// testConcurrentWCC checks that no other change lies between the attributes
// before and after a change.
func testConcurrentWCC(r *testFS) {
	const workers, rounds = 4, 100
	f := r.createFile(r.root, "f", "")
	var end atomic.Uint64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range rounds {
				size := end.Add(10)
				_, _, w, err := r.fs.Write(r.ctx, r.c, f, make([]byte, 10), size-10, vfs.Unstable)
				assert.NoError(r, err)
				if w.Before.OK {
					assert.Equal(r, max(w.Before.Size, size), w.After.Size)
				}
			}
		})
	}
	wg.Wait()
}

// testConcurrentNames creates, renames and removes names concurrently in the
// same directories.
func testConcurrentNames(r *testFS) {
	const workers, rounds = 8, 12
	dirs := []vfs.Handle{r.createDir(r.root, "a"), r.createDir(r.root, "b")}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			from, to := dirs[w%2], dirs[(w+1)%2]
			for i := range rounds {
				name := fmt.Sprintf("%d-%d", w, i)
				m, err := r.fs.Create(r.ctx, r.c, from, name, guardedCreate(0o600))
				if !assert.NoError(r, err) {
					return
				}
				_, _, err = r.fs.Rename(r.ctx, r.c, from, name, to, name)
				assert.NoError(r, err)
				h, _, _, err := r.fs.Lookup(r.ctx, r.c, to, name)
				assert.NoError(r, err)
				assert.Equal(r, m.Handle, h)
				_, _, _, err = r.fs.ReadDir(r.ctx, r.c, to, 0, 0, true, func(*vfs.Entry) bool { return true })
				assert.NoError(r, err)
				if i%2 == 0 {
					_, err = r.fs.Remove(r.ctx, r.c, to, name)
					assert.NoError(r, err)
				}
				// All workers compete for this name; only one at a time
				// succeeds.
				_, _ = r.fs.Create(r.ctx, r.c, r.root, "contended", vfs.CreateHow{Mode: vfs.Unchecked, Attr: modeAttr(0o600)})
				_, _ = r.fs.Remove(r.ctx, r.c, r.root, "contended")
			}
		})
	}
	wg.Wait()
	assert.Len(r, append(r.listNames(dirs[0]), r.listNames(dirs[1])...), workers*rounds/2)
}
