package workload

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// HoldMoved is a file that Hold keeps open in its directory. While the server
// is down, the other side of the server may rename the file to HoldMovedTo.
const (
	HoldMoved   = "moved"
	HoldMovedTo = "moved-by-other"
)

const (
	holdSize  = 300007 // bytes of each of the workers' files
	holdPoll  = 10 * time.Millisecond
	holdLimit = 2 * time.Minute // time until work continues after the server's return
)

// Hold opens files in dir and works on them until in ends. It writes "held"
// when all are open. For each line that it reads, Hold writes "checked" once
// every file has since been written, synced and read again from the server. A
// restart of the server between two lines thus falls between operations on open
// files.
func Hold(dir string, in io.Reader, out io.Writer) error {
	return check(func(t *T) {
		h := open(t, dir)
		h.work()
		fmt.Fprintln(out, "held")
		for lines := bufio.NewScanner(in); lines.Scan(); {
			h.await(t)
			h.others(t)
			fmt.Fprintf(out, "checked after %d rounds\n", h.workers[0].rounds.Load())
		}
		h.close(t)
	})
}

// held is Hold's open files.
type held struct {
	dir     string
	open    *os.File // dir itself
	fixed   *os.File // read only
	workers []*worker
	stop    atomic.Bool
	wg      sync.WaitGroup
}

// A worker continuously writes and reads one file.
type worker struct {
	shadow
	rounds atomic.Int64 // completed
	failed atomic.Pointer[error]
}

func open(t *T, dir string) *held {
	p := in(dir)
	h := &held{dir: dir}
	for _, name := range []string{"cached", "direct", "unlinked", "renamed", HoldMoved} {
		flag := os.O_CREATE | os.O_EXCL | os.O_RDWR
		if name == "direct" {
			flag |= direct(t, dir)
		}
		f, err := os.OpenFile(p(name), flag, 0o644)
		require.NoError(t, err)
		w := &worker{shadow: shadow{f: f, want: patternBytes(patternOf(name), holdSize)}}
		_, err = f.WriteAt(w.want, 0)
		require.NoError(t, err)
		h.workers = append(h.workers, w)
	}
	require.NoError(t, os.Remove(p("unlinked")))
	require.NoError(t, os.Mkdir(p("d"), 0o755))
	require.NoError(t, os.Rename(p("renamed"), p("d/renamed")))
	create(t, p("fixed"), patternBytes(9, holdSize))
	var err error
	h.fixed, err = os.Open(p("fixed"))
	require.NoError(t, err)
	h.open, err = os.Open(dir)
	require.NoError(t, err)
	return h
}

// work starts the workers.
func (h *held) work() {
	for i, w := range h.workers {
		h.wg.Go(func() {
			r := rand.New(rand.NewPCG(3, uint64(i)))
			for !h.stop.Load() && w.failed.Load() == nil {
				if err := check(func(t *T) { w.round(t, r) }); err != nil {
					w.failed.Store(&err)
				}
				w.rounds.Add(1)
			}
		})
	}
}

func (w *worker) round(t *T, r *rand.Rand) {
	for range 8 {
		w.write(t, r, 30000)
		w.read(t, r, 30000)
	}
	w.all(t)
}

// await returns when every worker has completed a round that began after this
// call.
func (h *held) await(t *T) {
	deadline := time.Now().Add(holdLimit)
	for _, w := range h.workers {
		for until := w.rounds.Load() + 2; w.rounds.Load() < until; time.Sleep(holdPoll) {
			if err := w.failed.Load(); err != nil {
				require.NoError(t, *err)
			}
			require.True(t, time.Now().Before(deadline), "%s: nothing done for %v", w.f.Name(), holdLimit)
		}
	}
}

// others uses the files that the workers do not use.
func (h *held) others(t *T) {
	forget(t, h.fixed)
	got := make([]byte, holdSize)
	_, err := h.fixed.ReadAt(got, 0)
	require.NoError(t, err)
	require.Empty(t, differ(patternBytes(9, holdSize), got))

	flags := unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY | unix.O_CLOEXEC
	fd, err := unix.Openat(int(h.open.Fd()), "new", flags, 0o644)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "new")
	_, err = f.WriteString("made in a directory that was open")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, unix.Unlinkat(int(h.open.Fd()), "new", 0))
}

// close ends the work and checks each file by its name.
func (h *held) close(t *T) {
	h.stop.Store(true)
	h.wg.Wait()
	for _, w := range h.workers {
		if err := w.failed.Load(); err != nil {
			require.NoError(t, *err)
		}
		require.NoError(t, w.f.Close())
	}
	require.NoError(t, h.fixed.Close())
	require.NoError(t, h.open.Close())

	p := in(h.dir)
	holds(t, p("cached"), h.workers[0].want)
	holds(t, p("direct"), h.workers[1].want)
	holds(t, p("d/renamed"), h.workers[3].want)
	moved := list(t, h.dir)
	assert.Len(t, moved, 5, "%q: no unlinked file is left", moved)
	for _, name := range []string{HoldMoved, HoldMovedTo} {
		if _, err := os.Lstat(p(name)); err == nil {
			holds(t, p(name), h.workers[4].want)
			return
		}
	}
	t.Errorf("the file %s is gone", HoldMoved)
}
