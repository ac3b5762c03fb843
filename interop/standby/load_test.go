//go:build interop

package standby

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

const (
	blockSize = 4096 // bytes
	blocks    = 32   // of each file
)

// A workFile is an open file.
type workFile interface {
	WriteAt(p []byte, off int64) (int, error)
	ReadAt(p []byte, off int64) (int, error)
	Sync() error
}

// A worker writes blocks of a file and syncs each, while a reader reads them through the
// same client. Block n is written as version n, n+blocks and so on.
type worker struct {
	name string
	file workFile

	acknowledged [blocks]atomic.Uint64 // the versions that were synced
	started      [blocks]atomic.Uint64 // the versions that were written, perhaps
	version      uint64

	mu     sync.Mutex
	last   time.Time     // of the last sync
	gap    time.Duration // the longest between two syncs since resetGap
	syncs  int
	checks int // of blocks read
}

// fillBlock fills a block with its worker's name, its version and the hash of both.
func fillBlock(p []byte, name string, version uint64) {
	clear(p)
	binary.BigEndian.PutUint64(p, version)
	copy(p[8:32], name)
	sum := sha256.Sum256(p[:32])
	for at := 32; at < len(p); at += len(sum) {
		copy(p[at:], sum[:])
	}
}

// write writes the next block.
func (w *worker) write(p []byte) error {
	w.version++
	at := w.version % blocks
	fillBlock(p, w.name, w.version)
	w.started[at].Store(w.version)
	if _, err := w.file.WriteAt(p, int64(at)*blockSize); err != nil {
		return fmt.Errorf("%s: WRITE: %w", w.name, err)
	}
	if err := w.file.Sync(); err != nil {
		return fmt.Errorf("%s: fsync: %w", w.name, err)
	}
	w.acknowledged[at].Store(w.version)
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.gap = max(w.gap, now.Sub(w.last))
	w.last = now
	w.syncs++
	return nil
}

// checkBlock reads a block, which must have at least the version that was acknowledged
// before, and at most the one that has been started.
func (w *worker) checkBlock(file io.ReaderAt, p []byte, at int) error {
	least := w.acknowledged[at].Load()
	if least == 0 {
		return nil
	}
	if _, err := file.ReadAt(p, int64(at)*blockSize); err != nil && err != io.EOF {
		return fmt.Errorf("%s: READ: %w", w.name, err)
	}
	version := binary.BigEndian.Uint64(p)
	want := make([]byte, blockSize)
	fillBlock(want, w.name, version)
	if most := w.started[at].Load(); version < least || version > most || !bytes.Equal(want, p) {
		return fmt.Errorf("%s: block %d has version %d, acknowledged was %d, started %d; equal: %t", w.name, at, version, least, most, bytes.Equal(want, p))
	}
	return nil
}

func (w *worker) resetGap() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gap, w.syncs, w.checks = 0, 0, 0
}

// measured returns the longest gap since resetGap, and how many blocks were synced and
// read.
func (w *worker) measured() (gap time.Duration, syncs, checks int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gap, w.syncs, w.checks
}

// A load is 16 writers and 16 readers.
type load struct {
	t       *testing.T
	workers []*worker
	stop    atomic.Bool
	all     sync.WaitGroup
}

// startLoad starts writers and readers by the Go client over RDMA and TCP.
func startLoad(t *testing.T) *load {
	t.Helper()
	l := &load{t: t}
	for _, transport := range []string{"rdma", "tcp"} {
		fs := dial(t, transport)
		for i := range 8 {
			name := fmt.Sprint(transport, "-", i)
			f, err := fs.Create(t.Context(), name, 0o600)
			require.NoError(t, err)
			l.startWorker(name, goFile{f})
		}
	}
	t.Cleanup(l.end)
	return l
}

func (l *load) startWorker(name string, file workFile) {
	w := &worker{name: name, file: file, last: time.Now()}
	l.workers = append(l.workers, w)
	l.repeat(func(p []byte, _ int) error { return w.write(p) })
	l.repeat(func(p []byte, n int) error {
		err := w.checkBlock(file, p, n%blocks)
		w.mu.Lock()
		w.checks++
		w.mu.Unlock()
		return err
	})
}

// repeat calls f until the load ends or f fails.
func (l *load) repeat(f func(p []byte, n int) error) {
	l.all.Go(func() {
		p := make([]byte, blockSize)
		for n := 0; !l.stop.Load(); n++ {
			if err := f(p, n); !assert.NoError(l.t, err) {
				return
			}
			time.Sleep(time.Millisecond) // not all of the processors
		}
	})
}

func (l *load) end() {
	l.stop.Store(true)
	l.all.Wait()
}

func (l *load) resetGaps() {
	for _, w := range l.workers {
		w.resetGap()
	}
}

// awaitProgress waits until all writers and readers have completed operations that began
// after the call, and returns the longest gap of a writer since resetGaps.
func (l *load) awaitProgress() (longest time.Duration) {
	l.t.Helper()
	for _, w := range l.workers {
		_, syncs, checks := w.measured()
		require.Eventually(l.t, func() bool {
			_, s, c := w.measured()
			return s >= syncs+2 && c >= checks+2
		}, limit, time.Millisecond, "%s makes no progress", w.name)
		gap, _, _ := w.measured()
		longest = max(longest, gap)
	}
	return longest
}

// checkBacking checks all acknowledged blocks in the file system's own files.
func (l *load) checkBacking(dir string) (count int) {
	l.t.Helper()
	p := make([]byte, blockSize)
	for _, w := range l.workers {
		f, err := os.Open(filepath.Join(dir, w.name))
		require.NoError(l.t, err)
		defer f.Close()
		for at := range blocks {
			assert.NoError(l.t, w.checkBlock(f, p, at))
			count++
		}
	}
	return count
}

// goFile is a file of the Go client.
type goFile struct{ f *nfsclient.File }

func (g goFile) WriteAt(p []byte, off int64) (int, error) {
	return g.f.WriteAt(context.Background(), p, off)
}

func (g goFile) ReadAt(p []byte, off int64) (int, error) {
	return g.f.ReadAt(context.Background(), p, off)
}

func (g goFile) Sync() error { return g.f.Sync(context.Background()) }

// dial returns the export by a client that knows both hosts.
func dial(t *testing.T, transport string) *nfsclient.FS {
	t.Helper()
	c, err := nfsrdma.Dial(t.Context(), servers, nfsrdma.ClientConfig{
		TCP: transport == "tcp", Connections: 2, Export: export, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	fs, err := c.Mount(t.Context(), export)
	require.NoError(t, err)
	return fs
}
