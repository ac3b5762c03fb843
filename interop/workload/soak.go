package workload

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	soakFiles = 4
	soakSize  = 1<<20 - 3 // bytes in each
)

// A soakFile is rewritten repeatedly, each time with its next generation's pattern.
type soakFile struct {
	name  string
	lock  sync.Mutex   // held by the writer, and by a reader that uses the page cache
	begun atomic.Int64 // generation being written
	done  atomic.Int64 // generation written, synced and closed
}

func (s *soakFile) patternFor(generation int64) uint64 {
	return patternOf(fmt.Sprintf("%s, generation %d", s.name, generation))
}

// Soak writes files through the directory w and reads them through r, another mount on
// the same directory, until d has passed. A reader must see the generation that was
// closed before its open. During a write, a reader past the page cache may see the new
// generation's bytes. While another mount writes, a page cache is only valid at the time
// of the open, so a cached reader waits for the writer.
func Soak(w, r string, d time.Duration, log io.Writer) error {
	files := make([]*soakFile, soakFiles)
	for i := range files {
		files[i] = &soakFile{name: fmt.Sprintf("soak-%d", i)}
	}
	return runChecks(func(t *T) {
		for _, s := range files {
			createFile(t, filepath.Join(w, s.name), patternBytes(s.patternFor(0), soakSize))
		}
		end := time.Now().Add(d)
		var written, read int
		errs := make(chan error, 2)
		go func() { errs <- repeatUntil(end, &written, func(t *T, n int) { soakWrite(t, w, files, n) }) }()
		go func() { errs <- repeatUntil(end, &read, func(t *T, n int) { soakRead(t, r, files, n) }) }()
		for range 2 {
			require.NoError(t, <-errs)
		}
		fmt.Fprintf(log, "soak: %d files of %d bytes written, %d read\n", written, soakSize, read)
		for _, s := range files {
			require.NoError(t, os.Remove(filepath.Join(w, s.name)))
		}
	})
}

// repeatUntil calls f with running numbers until end or until it fails.
func repeatUntil(end time.Time, count *int, f func(t *T, n int)) error {
	for time.Now().Before(end) {
		if err := runChecks(func(t *T) { f(t, *count) }); err != nil {
			return err
		}
		*count++
	}
	return nil
}

// soakWrite writes a file's next generation in pieces with odd lengths.
func soakWrite(t *T, dir string, files []*soakFile, n int) {
	r := rand.New(rand.NewPCG(4, uint64(n)))
	s := files[r.IntN(len(files))]
	s.lock.Lock()
	defer s.lock.Unlock()
	generation := s.begun.Add(1)
	p := patternBytes(s.patternFor(generation), soakSize)
	f, err := os.OpenFile(filepath.Join(dir, s.name), os.O_WRONLY, 0)
	require.NoError(t, err)
	for at := 0; at < len(p); {
		piece := min(r.IntN(400000)|1, len(p)-at)
		_, err := f.WriteAt(p[at:at+piece], int64(at))
		require.NoError(t, err)
		at += piece
	}
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	s.done.Store(generation)
}

// soakRead reads a file and checks every byte.
func soakRead(t *T, dir string, files []*soakFile, n int) {
	r := rand.New(rand.NewPCG(5, uint64(n)))
	s := files[r.IntN(len(files))]
	flag := directFlag(t, dir)
	if n%2 == 0 {
		flag = 0
		s.lock.Lock()
		defer s.lock.Unlock()
	}
	oldest := s.done.Load()
	f, err := os.OpenFile(filepath.Join(dir, s.name), os.O_RDONLY|flag, 0)
	require.NoError(t, err)
	defer f.Close()
	got, err := io.ReadAll(io.LimitReader(f, soakSize+1))
	require.NoError(t, err)
	require.Len(t, got, soakSize)
	s.verifyContent(t, got, oldest, s.begun.Load())
}

// verifyContent asserts that each byte belongs to one of the generations.
func (s *soakFile) verifyContent(t *T, got []byte, oldest, newest int64) {
	if bytes.Equal(patternBytes(s.patternFor(oldest), len(got)), got) {
		return
	}
	wrong := make([]int, 0, len(got)) // offsets whose bytes match no generation
	for i := range got {
		wrong = append(wrong, i)
	}
	for g := oldest; g <= newest && len(wrong) > 0; g++ {
		p := patternBytes(s.patternFor(g), len(got))
		wrong = slices.DeleteFunc(wrong, func(i int) bool { return got[i] == p[i] })
	}
	if len(wrong) > 0 {
		t.Errorf("%s: %d bytes, the first at %d, are of none of the generations %d to %d",
			s.name, len(wrong), wrong[0], oldest, newest)
	}
}
