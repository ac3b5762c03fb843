//go:build interop

package standby

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

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
	place string // of its file
	name  string
	file  workFile

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
// before, and at most the one that has been started. A read during a write may return parts
// of both, and is repeated.
func (w *worker) checkBlock(file io.ReaderAt, p []byte, at int) error {
	want := make([]byte, blockSize)
	for {
		least := w.acknowledged[at].Load()
		if least == 0 {
			return nil
		}
		if _, err := file.ReadAt(p, int64(at)*blockSize); err != nil && err != io.EOF {
			return fmt.Errorf("%s: READ: %w", w.name, err)
		}
		version, most := binary.BigEndian.Uint64(p), w.started[at].Load()
		fillBlock(want, w.name, version)
		isWhole := bytes.Equal(want, p)
		switch {
		case version < least || version > most || !isWhole && most == least:
			return fmt.Errorf("%s: block %d has version %d, acknowledged was %d, started %d; whole: %t", w.name, at, version, least, most, isWhole)
		case isWhole:
			return nil
		}
	}
}

// read checks a block through the client.
func (w *worker) read(p []byte, n int) error {
	err := w.checkBlock(w.file, p, n%blocks)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checks++
	return err
}

func (w *worker) resetGap() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gap = 0
}

// measured returns the longest gap since resetGap, and how many blocks were synced and
// read.
func (w *worker) measured() (gap time.Duration, syncs, checks int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gap, w.syncs, w.checks
}

// A load is writers and as many readers.
type load struct {
	workers []*worker
	stop    atomic.Bool
	all     sync.WaitGroup

	mu  sync.Mutex
	err error // of all that failed
}

// start starts the writer and the reader of each file.
func (l *load) start(place string, files map[string]workFile) {
	for name, file := range files {
		w := &worker{place: place, name: name, file: file, last: time.Now()}
		l.workers = append(l.workers, w)
		l.repeat(func(p []byte, _ int) error { return w.write(p) })
		l.repeat(w.read)
	}
}

// repeat calls f until the load ends or f fails.
func (l *load) repeat(f func(p []byte, n int) error) {
	l.all.Go(func() {
		p := make([]byte, blockSize)
		for n := 0; !l.stop.Load(); n++ {
			if err := f(p, n); err != nil {
				l.fail(err)
				return
			}
			time.Sleep(time.Millisecond) // not all of the processors
		}
	})
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = errors.Join(l.err, err)
}

func (l *load) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
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
// after the call, and returns the longest gap of a writer in each place since resetGaps.
func (l *load) awaitProgress() (longest map[string]time.Duration, err error) {
	longest = make(map[string]time.Duration)
	deadline := time.Now().Add(limit)
	for _, w := range l.workers {
		_, syncs, checks := w.measured()
		for _, s, c := w.measured(); s < syncs+2 || c < checks+2; _, s, c = w.measured() {
			if err := l.failure(); err != nil {
				return nil, err
			}
			if time.Now().After(deadline) {
				return nil, fmt.Errorf("%s makes no progress: %d of 2 blocks written, %d of 2 read", w.name, s-syncs, c-checks)
			}
			time.Sleep(time.Millisecond)
		}
		gap, _, _ := w.measured()
		longest[w.place] = max(longest[w.place], gap)
	}
	return longest, nil
}

// checkBacking checks all acknowledged blocks in the file system's own files.
func (l *load) checkBacking(dir string) (count int, err error) {
	p := make([]byte, blockSize)
	for _, w := range l.workers {
		f, err := os.Open(filepath.Join(dir, w.name))
		if err != nil {
			return count, err
		}
		defer f.Close()
		for at := range blocks {
			if err := w.checkBlock(f, p, at); err != nil {
				return count, err
			}
			count++
		}
	}
	return count, nil
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

// createByClient creates files by the Go client, with a connection to the list of servers.
func createByClient(transport string, names []string) (map[string]workFile, error) {
	ctx := context.Background()
	c, err := nfsrdma.Dial(ctx, servers, nfsrdma.ClientConfig{
		TCP: transport == "tcp", Connections: 2, Export: export, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	fs, err := c.Mount(ctx, export)
	if err != nil {
		return nil, err
	}
	files := make(map[string]workFile)
	for _, name := range names {
		f, err := fs.Create(ctx, name, 0o600)
		if err != nil {
			return nil, err
		}
		files[name] = goFile{f}
	}
	return files, nil
}

// createInMount creates files in a directory.
func createInMount(dir string, names []string) (map[string]workFile, error) {
	files := make(map[string]workFile)
	for _, name := range names {
		path := filepath.Join(dir, name)
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		files[name] = f
	}
	return files, nil
}
