package workload

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/require"
)

const (
	ledgerRecord = 200 << 10 // maximum record length in bytes
	ledgerLong   = 4 << 20   // maximum record length in bytes of fsync-b: much data in flight at once
	ledgerPiece  = 50 << 10  // maximum length of one write in bytes
	ledgerMost   = 32 << 20  // bytes; a longer file begins again
)

// LedgerFiles returns the names of the files that Ledger writes in its directory. Ledger
// syncs the first two by fsync after each record, and writes the third with O_SYNC.
func LedgerFiles() []string { return []string{"fsync-a", "fsync-b", "osync"} }

// Ledger appends records to files in dir until in ends, and syncs each. For
// each record it writes the system's promise in one line:
//
//	FILE GENERATION LENGTH    that many bytes in the file's generation are safe
//
// A generation's bytes are a pattern, which LedgerHolds checks. A file
// that becomes long is truncated to nothing and begins its next generation; the
// truncation is synced as well. At the end Ledger closes all files, and checks
// their content through dir.
func Ledger(dir string, in io.Reader, out io.Writer) error {
	var stop atomic.Bool
	var say sync.Mutex
	var wg sync.WaitGroup
	errs := make([]error, len(LedgerFiles()))
	for n, name := range LedgerFiles() {
		wg.Go(func() {
			errs[n] = runChecks(func(t *T) {
				b := openBook(t, dir, name, uint64(n))
				b.promise = func() {
					say.Lock()
					defer say.Unlock()
					fmt.Fprintf(out, "%s %d %d\n", name, b.generation, b.size)
				}
				for !stop.Load() {
					b.appendRecord(t)
				}
				b.closeAndCheck(t)
			})
		})
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		// Input only keeps Ledger running.
	}
	stop.Store(true)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// A ledgerFile is one of Ledger's files.
type ledgerFile struct {
	path       string
	f          *os.File
	generation int
	size       int64
	r          *rand.Rand
	promise    func()
}

func openBook(t *T, dir, name string, seed uint64) *ledgerFile {
	flag := os.O_CREATE | os.O_EXCL | os.O_RDWR
	if name == "osync" {
		flag |= os.O_SYNC
	}
	b := &ledgerFile{path: filepath.Join(dir, name), r: rand.New(rand.NewPCG(11, seed))}
	var err error
	b.f, err = os.OpenFile(b.path, flag, 0o644)
	require.NoError(t, err)
	return b
}

// appendRecord appends one record and syncs it.
func (b *ledgerFile) appendRecord(t *T) {
	if b.size > ledgerMost {
		b.size = 0
		b.promise() // nothing: the truncation destroys the old generation
		require.NoError(t, b.f.Truncate(0))
		b.generation++
		require.NoError(t, b.f.Sync())
	}
	most := ledgerRecord
	if filepath.Base(b.path) == "fsync-b" {
		most = ledgerLong
	}
	for left := 1 + b.r.IntN(most); left > 0; {
		piece := make([]byte, min(left, 1+b.r.IntN(ledgerPiece)))
		fillPattern(piece, ledgerPattern(filepath.Base(b.path), b.generation), b.size)
		_, err := b.f.WriteAt(piece, b.size)
		require.NoError(t, err)
		b.size += int64(len(piece))
		left -= len(piece)
	}
	if filepath.Base(b.path) != "osync" {
		require.NoError(t, b.f.Sync())
	}
	b.promise()
}

// closeAndCheck closes the file and checks its whole content.
func (b *ledgerFile) closeAndCheck(t *T) {
	require.NoError(t, b.f.Close())
	require.NoError(t, LedgerHolds(filepath.Dir(b.path), filepath.Base(b.path), b.generation, b.size))
	require.EqualValues(t, b.size, lstat(t, b.path).Size)
}

// LedgerHolds reports whether one of Ledger's files in dir has the promised bytes: a
// generation's first size bytes.
func LedgerHolds(dir, name string, generation int, size int64) error {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	want, got := make([]byte, 1<<20), make([]byte, 1<<20)
	for off := int64(0); off < size; off += int64(len(want)) {
		n := min(int64(len(want)), size-off)
		fillPattern(want[:n], ledgerPattern(name, generation), off)
		if _, err := f.ReadAt(got[:n], off); err != nil {
			return fmt.Errorf("%s: generation %d, %d bytes promised, at %d: %w", name, generation, size, off, err)
		}
		if d := findDifference(want[:n], got[:n]); d != "" {
			return fmt.Errorf("%s: generation %d, %d bytes promised, from %d on: %s", name, generation, size, off, d)
		}
	}
	return nil
}

func ledgerPattern(name string, generation int) uint64 {
	return patternOf(fmt.Sprintf("%s %d", name, generation))
}
