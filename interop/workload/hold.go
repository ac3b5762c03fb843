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
// is down, the server's other side may rename the file to HoldMovedTo.
const (
	HoldMoved   = "moved"
	HoldMovedTo = "moved-by-other"
)

const (
	holdSize  = 300007 // bytes in each worker's file
	holdPoll  = 10 * time.Millisecond
	holdLimit = 2 * time.Minute // time until work continues after the server's return
)

// Hold opens files in dir and works on them until in ends. It writes "held" when all are
// open. For each line that it reads, Hold writes "checked" once every file has since been
// written, synced and read again from the server. A server restart between two lines thus
// falls between operations on open files.
func Hold(dir string, in io.Reader, out io.Writer) error {
	return runChecks(func(t *T) {
		h := openHeld(t, dir)
		h.startWorkers()
		fmt.Fprintln(out, "held")
		for lines := bufio.NewScanner(in); lines.Scan(); {
			h.awaitRounds(t)
			h.useOthers(t)
			fmt.Fprintf(out, "checked after %d rounds\n", h.workers[0].rounds.Load())
		}
		h.closeAll(t)
	})
}

// heldFiles is Hold's open files.
type heldFiles struct {
	dir     string
	open    *os.File // dir itself
	fixed   *os.File // read only
	workers []*worker
	stop    atomic.Bool
	wg      sync.WaitGroup
}

// A worker continuously writes and reads one file.
type worker struct {
	shadowFile
	rounds atomic.Int64 // completed
	failed atomic.Pointer[error]
}

func openHeld(t *T, dir string) *heldFiles {
	p := pathIn(dir)
	h := &heldFiles{dir: dir}
	for _, name := range []string{"cached", "direct", "unlinked", "renamed", HoldMoved} {
		flag := os.O_CREATE | os.O_EXCL | os.O_RDWR
		if name == "direct" {
			flag |= directFlag(t, dir)
		}
		f, err := os.OpenFile(p(name), flag, 0o644)
		require.NoError(t, err)
		w := &worker{shadowFile: shadowFile{f: f, want: patternBytes(patternOf(name), holdSize)}}
		_, err = f.WriteAt(w.want, 0)
		require.NoError(t, err)
		h.workers = append(h.workers, w)
	}
	require.NoError(t, os.Remove(p("unlinked")))
	require.NoError(t, os.Mkdir(p("d"), 0o755))
	require.NoError(t, os.Rename(p("renamed"), p("d/renamed")))
	createFile(t, p("fixed"), patternBytes(9, holdSize))
	var err error
	h.fixed, err = os.Open(p("fixed"))
	require.NoError(t, err)
	h.open, err = os.Open(dir)
	require.NoError(t, err)
	return h
}

// startWorkers starts the workers.
func (h *heldFiles) startWorkers() {
	for i, w := range h.workers {
		h.wg.Go(func() {
			r := rand.New(rand.NewPCG(3, uint64(i)))
			for !h.stop.Load() && w.failed.Load() == nil {
				if err := runChecks(func(t *T) { w.runRound(t, r) }); err != nil {
					w.failed.Store(&err)
				}
				w.rounds.Add(1)
			}
		})
	}
}

func (w *worker) runRound(t *T, r *rand.Rand) {
	for range 8 {
		w.writePiece(t, r, 30000)
		w.checkPiece(t, r, 30000)
	}
	w.checkAll(t)
}

// awaitRounds returns when every worker has completed a round that began after this
// call.
func (h *heldFiles) awaitRounds(t *T) {
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

// useOthers uses the files that the workers do not use.
func (h *heldFiles) useOthers(t *T) {
	dropCache(t, h.fixed)
	got := make([]byte, holdSize)
	_, err := h.fixed.ReadAt(got, 0)
	require.NoError(t, err)
	require.Empty(t, findDifference(patternBytes(9, holdSize), got))

	flags := unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY | unix.O_CLOEXEC
	fd, err := unix.Openat(int(h.open.Fd()), "new", flags, 0o644)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "new")
	_, err = f.WriteString("made in a directory that was open")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, unix.Unlinkat(int(h.open.Fd()), "new", 0))
}

// closeAll ends the work and checks each file by its name.
func (h *heldFiles) closeAll(t *T) {
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

	p := pathIn(h.dir)
	checkContent(t, p("cached"), h.workers[0].want)
	checkContent(t, p("direct"), h.workers[1].want)
	checkContent(t, p("d/renamed"), h.workers[3].want)
	moved := listNames(t, h.dir)
	assert.Len(t, moved, 5, "%q: no unlinked file is left", moved)
	for _, name := range []string{HoldMoved, HoldMovedTo} {
		if _, err := os.Lstat(p(name)); err == nil {
			checkContent(t, p(name), h.workers[4].want)
			return
		}
	}
	t.Errorf("the file %s is gone", HoldMoved)
}
