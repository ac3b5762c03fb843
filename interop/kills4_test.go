//go:build interop

package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsclient/nfs4client"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
)

const (
	frayKills     = 40
	fraySoak      = 200 // in make soak
	frayWorkers   = 4   // per client
	frayRegions   = 8
	frayPace      = 30 * time.Millisecond // the longest time between progress and a kill
	frayAgain     = 40 * time.Millisecond // the longest time from a start to a second kill
	progressLimit = time.Minute
	regionSize    = 512 // bytes
)

// TestKills kills nfsrdmad again and again while two clients, over RDMA and over
// TCP, open, lock and write; each fourth time once more while they reclaim. All
// that they hold must be reclaimed, acknowledged changes must be there, and no
// lock may be granted twice: the clients compare notes.
//
// R8881-9.11-1.
func TestKills(t *testing.T) {
	buildOnce(t)
	kills := frayKills
	if os.Getenv("INTEROP_SOAK") != "" {
		kills = fraySoak
	}
	d := startDaemon(t, "--no-root-squash")
	before := d.openFiles()
	f := newFray(t, d)
	began := time.Now()
	var longest time.Duration
	again := 0
	for round := range kills {
		f.awaitProgress(round)
		time.Sleep(rand.N(frayPace))
		d.proc.Kill()
		d.startProcess()
		if round%4 == 3 {
			time.Sleep(rand.N(frayAgain))
			d.proc.Kill()
			d.startProcess()
			again++
		}
		start := time.Now()
		f.awaitProgress(round)
		longest = max(longest, time.Since(start))
		if round%20 == 19 {
			t.Logf("%d kills in %.1f s", round+1, time.Since(began).Seconds())
		}
	}
	took := time.Since(began)
	steps := f.endAndCheck()
	t.Logf("%d kills, and %d soon after, in %.1f s; %d steps; all workers have gone on at the latest %.2f s after a start",
		kills, again, took.Seconds(), steps, longest.Seconds())
	d.checkDescriptors(before)
	d.stopGracefully()
	assert.NotContains(t, d.stderr.String(), "level=WARN")
}

// newSession4 makes a client of a daemon, over "rdma" or "tcp". The test's end
// closes it.
func newSession4(t *testing.T, d *daemon, network string) *nfs4client.Session {
	t.Helper()
	var s *nfs4client.Session
	if network == "rdma" {
		cfg := nfsrdma.ClientConfig{IWARP: iwarp.Config{StartupTimeout: time.Minute}, Log: quiet}
		cfg.NFS.Cred = &cred4
		var err error
		s, err = nfsrdma.DialV4(t.Context(), d.rdma, nfs4.Minor2, cfg)
		require.NoError(t, err)
	} else {
		s = dialTCP4(t, func(ctx context.Context) (nfs4client.Conn, error) { return tcpConn(ctx, d.tcp) })
	}
	t.Cleanup(func() { closeSession(t, s) })
	return s
}

var (
	cred4 = rpcmsg.Cred{Flavor: rpcmsg.AuthSys}
	quiet = slog.New(slog.DiscardHandler)
)

func closeSession(t *testing.T, s *nfs4client.Session) {
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeLimit)
	defer cancel()
	if err := s.Close(ctx); !errors.Is(err, nfs4client.ErrClosed) {
		assert.NoError(t, err)
	}
}

// A concurrentWork is the work of all clients, with the changes that the server has
// acknowledged.
type concurrentWork struct {
	t       *testing.T
	dir     string // on the server
	ctx     context.Context
	stop    context.CancelFunc
	clients []*nfs4client.Session
	workers []*workClient
	running sync.WaitGroup

	over, failed atomic.Bool

	count  atomic.Int64 // the number in the file "counter"
	denier atomic.Int64 // the worker that has denied writing to the file "denied"
	region [frayRegions]frayRegion
}

// A frayRegion is a part of the file "regions".
type frayRegion struct {
	holders atomic.Int64 // shared locks; -1 is an exclusive lock
	mark    atomic.Int64 // the number that was written to it last
}

var (
	errTwice = errors.New("a lock has been granted twice")
	errLost  = errors.New("what was acknowledged is lost")
)

// newFray makes files, and clients that work on them until end.
func newFray(t *testing.T, d *daemon) *concurrentWork {
	f := &concurrentWork{t: t, dir: d.dir}
	for name, content := range map[string]string{
		"counter": fmt.Sprintf("%020d", 0), "regions": strings.Repeat("\x00", frayRegions*regionSize), "denied": "",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(d.dir, name), []byte(content), 0o666))
	}
	f.ctx, f.stop = context.WithCancel(t.Context())
	t.Cleanup(f.stop)
	for _, network := range []string{"rdma", "tcp"} {
		s := newSession4(t, d, network)
		f.clients = append(f.clients, s)
		dir := exportRoot(t, s)
		for i := range frayWorkers {
			w := &workClient{concurrentWork: f, name: fmt.Sprint(network, i), number: int64(len(f.workers) + 1), s: s, dir: dir}
			w.counter, w.regions = w.openFile("counter"), w.openFile("regions")
			f.workers = append(f.workers, w)
		}
	}
	for _, w := range f.workers {
		f.running.Go(func() {
			if w.err = w.runStep(); w.err != nil {
				f.failed.Store(true)
			}
		})
	}
	return f
}

// awaitProgress returns when each worker has finished two further steps.
func (f *concurrentWork) awaitProgress(round int) {
	f.t.Helper()
	deadline := time.Now().Add(progressLimit)
	for _, w := range f.workers {
		for until := w.steps.Load() + 2; w.steps.Load() < until; time.Sleep(time.Millisecond) {
			if f.failed.Load() || time.Now().After(deadline) {
				f.stop()
				f.running.Wait()
				for _, w := range f.workers {
					f.t.Logf("%s: %d steps, then %s: %v", w.name, w.steps.Load(), *w.doing.Load(), w.err)
				}
				f.t.Fatalf("round %d: %s makes no progress", round, w.name)
			}
		}
	}
}

// endAndCheck ends the work and the clients, compares the files with the acknowledged
// changes, and returns the number of steps.
func (f *concurrentWork) endAndCheck() (steps int64) {
	f.over.Store(true)
	f.running.Wait()
	for _, s := range f.clients {
		closeSession(f.t, s)
	}
	for _, w := range f.workers {
		require.NoError(f.t, w.err, "%s: %s", w.name, *w.doing.Load())
		steps += w.steps.Load()
		b, err := os.ReadFile(filepath.Join(f.dir, w.name))
		require.NoError(f.t, err)
		assert.Equal(f.t, string(w.content), string(b), w.name)
	}
	b, err := os.ReadFile(filepath.Join(f.dir, "counter"))
	require.NoError(f.t, err)
	assert.Equal(f.t, fmt.Sprintf("%020d", f.count.Load()), string(b))
	return steps
}

// A workClient makes one step after the other.
type workClient struct {
	*concurrentWork
	name             string
	number           int64
	s                *nfs4client.Session
	dir              nfs4.FH
	counter, regions *nfs4client.File
	content          []byte // the worker's own file's content

	steps atomic.Int64
	doing atomic.Pointer[string]
	err   error
}

func (w *workClient) openFile(name string) *nfs4client.File {
	f, err := w.s.Open(w.ctx, w.dir, name, nfs4client.OpenFlags{Read: true, Write: true})
	require.NoError(w.t, err)
	return f
}

func (w *workClient) runStep() error {
	steps := []struct {
		name string
		do   func() error
	}{{"count", w.add}, {"lock regions", w.lockRegions}, {"deny writing", w.denyWriting}, {"write an own file", w.writeOwn}, {"move", w.moveFile}}
	for !w.over.Load() {
		step := steps[rand.N(len(steps))]
		w.doing.Store(&step.name)
		if err := step.do(); err != nil {
			return err
		}
		w.steps.Add(1)
	}
	return errors.Join(w.counter.Close(w.ctx), w.regions.Close(w.ctx))
}

// retryUntil makes a call again and again as long as another client is in its way.
func (w *workClient) retryUntil(inTheWay nfs4.Status, call func() error) error {
	for {
		if err := call(); !errors.Is(err, inTheWay) {
			return err
		}
		time.Sleep(time.Millisecond + rand.N(4*time.Millisecond))
	}
}

func (w *workClient) lock(f *nfs4client.File, r nfs4client.Range, exclusive bool) error {
	return w.retryUntil(nfs4.ErrDenied, func() error { return f.Lock(w.ctx, r, exclusive) })
}

// read reads n bytes at offset off.
func (w *workClient) read(f *nfs4client.File, n, off int) ([]byte, error) {
	b := make([]byte, n)
	got, err := f.ReadAt(w.ctx, b, uint64(off))
	if err == io.EOF {
		err = nil
	}
	return b[:got], err
}

// write writes data at offset off.
func (w *workClient) write(f *nfs4client.File, data []byte, off int) error {
	res, err := f.WriteAt(w.ctx, data, uint64(off), nfs4.Stable(rand.N(3)))
	if err == nil && int(res.Count) != len(data) {
		err = fmt.Errorf("%d bytes written of %d", res.Count, len(data))
	}
	return err
}

// add adds 1 to the counter.
func (w *workClient) add() error {
	if err := w.lock(w.counter, nfs4client.Range{End: nfs4client.ToEnd}, true); err != nil {
		return err
	}
	was := w.count.Load()
	b, err := w.read(w.counter, 20, 0)
	if err != nil {
		return err
	}
	if n, err := strconv.ParseInt(string(b), 10, 64); n != was || err != nil {
		return fmt.Errorf("%w: the counter is %q, not %d", errLost, b, was)
	}
	if err := w.write(w.counter, fmt.Appendf(nil, "%020d", was+1), 0); err != nil {
		return err
	}
	if !w.count.CompareAndSwap(was, was+1) {
		return fmt.Errorf("%w: of the counter", errTwice)
	}
	return w.counter.Unlock(w.ctx, nfs4client.Range{End: nfs4client.ToEnd})
}

// lockRegions locks some regions, changes the kind of the lock of one of them,
// and unlocks them one by one.
func (w *workClient) lockRegions() error {
	from := rand.N(frayRegions)
	to := min(from+rand.N(4), frayRegions-1) // the last one
	exclusive := rand.N(2) == 0
	if err := w.lock(w.regions, regionRange(from, to), exclusive); err != nil {
		return err
	}
	for i := from; i <= to; i++ {
		if err := w.enter(i, exclusive); err != nil {
			return err
		}
		if err := w.useRegion(i, exclusive); err != nil {
			return err
		}
	}
	time.Sleep(rand.N(2 * time.Millisecond))
	changed := from + rand.N(to-from+1)
	if err := w.changeLock(changed, exclusive); err != nil {
		return err
	}
	for _, n := range rand.Perm(to - from + 1) {
		i := from + n
		if err := w.noteUnlock(i); err != nil {
			return err
		}
		if err := w.regions.Unlock(w.ctx, regionRange(i, i)); err != nil {
			return err
		}
	}
	return nil
}

func regionRange(from, to int) nfs4client.Range {
	return nfs4client.Range{Start: uint64(from * regionSize), End: uint64((to+1)*regionSize - 1)}
}

// enter notes a lock that was granted.
func (w *workClient) enter(i int, exclusive bool) error {
	r := &w.region[i]
	if exclusive {
		if !r.holders.CompareAndSwap(0, -1) {
			return fmt.Errorf("%w: exclusively, of region %d with %d holders", errTwice, i, r.holders.Load())
		}
		return nil
	}
	if n := r.holders.Add(1); n <= 0 {
		return fmt.Errorf("%w: region %d is locked exclusively", errTwice, i)
	}
	return nil
}

// noteUnlock notes the end of a lock, which comes later.
func (w *workClient) noteUnlock(i int) error {
	r := &w.region[i]
	if r.holders.CompareAndSwap(-1, 0) {
		return nil
	}
	if n := r.holders.Add(-1); n < 0 {
		return fmt.Errorf("%w: region %d has %d holders", errTwice, i, n)
	}
	return nil
}

// changeLock makes an exclusive lock shared. It makes a shared lock exclusive, unless
// others have it too.
func (w *workClient) changeLock(i int, exclusive bool) error {
	r := &w.region[i]
	if exclusive {
		if !r.holders.CompareAndSwap(-1, 1) {
			return fmt.Errorf("%w: region %d has %d holders", errTwice, i, r.holders.Load())
		}
		if err := w.regions.Lock(w.ctx, regionRange(i, i), false); err != nil {
			return err
		}
		return w.useRegion(i, false)
	}
	err := w.regions.Lock(w.ctx, regionRange(i, i), true)
	if errors.Is(err, nfs4.ErrDenied) {
		return nil
	}
	if err == nil && !r.holders.CompareAndSwap(1, -1) {
		err = fmt.Errorf("%w: region %d has %d holders", errTwice, i, r.holders.Load())
	}
	if err != nil {
		return err
	}
	return w.useRegion(i, true)
}

// useRegion reads the mark of a region, and writes another one if the lock is
// exclusive.
func (w *workClient) useRegion(i int, exclusive bool) error {
	r := &w.region[i]
	was := r.mark.Load()
	if err := w.checkMark(i, was); err != nil || !exclusive {
		return err
	}
	mark := w.number<<32 | w.steps.Load()
	if err := w.write(w.regions, markBytes(mark), i*regionSize); err != nil {
		return err
	}
	if !r.mark.CompareAndSwap(was, mark) {
		return fmt.Errorf("%w: exclusively, of region %d", errTwice, i)
	}
	return w.checkMark(i, mark)
}

// checkMark checks the mark of a region that is locked.
func (w *workClient) checkMark(i int, mark int64) error {
	b, err := w.read(w.regions, regionSize, i*regionSize)
	if err == nil && mark != 0 && string(b) != string(markBytes(mark)) {
		err = fmt.Errorf("%w: region %d has %q, not the mark %x", errLost, i, b[:16], mark)
	}
	return err
}

func markBytes(mark int64) []byte {
	return []byte(strings.Repeat(fmt.Sprintf("%016x", mark), regionSize/16))
}

// denyWriting opens a file that no one else can then open for writing.
func (w *workClient) denyWriting() (err error) {
	var f *nfs4client.File
	err = w.retryUntil(nfs4.ErrShareDenied, func() (err error) {
		f, err = w.s.Open(w.ctx, w.dir, "denied", nfs4client.OpenFlags{Write: true, DenyWrite: true, Create: true, Mode: 0o666})
		return err
	})
	if err != nil {
		return err
	}
	if !w.denier.CompareAndSwap(0, w.number) {
		return fmt.Errorf("%w: a deny mode", errTwice)
	}
	if err := w.write(f, []byte(w.name), 0); err != nil {
		return err
	}
	time.Sleep(rand.N(2 * time.Millisecond))
	if !w.denier.CompareAndSwap(w.number, 0) {
		return fmt.Errorf("%w: a deny mode", errTwice)
	}
	return f.Close(w.ctx)
}

// writeOwn appends to the worker's own file.
func (w *workClient) writeOwn() error {
	f, err := w.s.Open(w.ctx, w.dir, w.name, nfs4client.OpenFlags{Read: true, Write: true, Create: true, Mode: 0o666})
	if err != nil {
		return err
	}
	b, err := w.read(f, len(w.content)+1, 0)
	if err != nil {
		return err
	}
	if string(b) != string(w.content) {
		return fmt.Errorf("%w: %d bytes of %s, which has %d", errLost, len(w.content), w.name, len(b))
	}
	data := []byte(strings.Repeat(fmt.Sprintf("%8d\n", w.steps.Load()), 1+rand.N(20)))
	if err := w.write(f, data, len(w.content)); err != nil {
		return err
	}
	w.content = append(w.content, data...)
	if len(w.content) > 64<<10 {
		if err := f.Truncate(w.ctx, 10); err != nil {
			return err
		}
		w.content = w.content[:10]
	}
	return f.Close(w.ctx)
}

// moveFile makes a file, renames it and removes it. A change whose answer is lost
// with the server may have been made.
func (w *workClient) moveFile() error {
	f, err := w.s.Open(w.ctx, w.dir, w.name+".new", nfs4client.OpenFlags{Write: true, Create: true, Mode: 0o666})
	if err != nil {
		return err
	}
	if err := f.Close(w.ctx); err != nil {
		return err
	}
	if err := changeWithRetry(func() error { return w.s.Rename(w.ctx, w.dir, w.name+".new", w.dir, w.name+".moved") }); err != nil {
		return err
	}
	return changeWithRetry(func() error { return w.s.Remove(w.ctx, w.dir, w.name+".moved") })
}

// changeWithRetry makes a change, again if it may not have been made.
func changeWithRetry(change func() error) error {
	err := change()
	for errors.Is(err, nfs4client.ErrUncertain) {
		if err = change(); errors.Is(err, nfs4.ErrNoEnt) {
			return nil
		}
	}
	return err
}
