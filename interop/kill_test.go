//go:build interop

package interop

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/workload"
)

const (
	killRounds = 3
	killSoak   = 50              // in make soak
	killPace   = 2 * time.Second // the longest time between two kills
	// settle is the wait for promises in transit when the daemon dies: the
	// system has answered, but the line has not yet arrived.
	settle       = time.Second
	promiseLimit = 2 * time.Minute // for a client to continue after a restart
)

// TestKill kills the daemon with SIGKILL at random moments, while Linux's
// client over RDMA and over TCP and a mount of mountrdma write and sync. The
// export is on a disk whose machine fails at the same moment: data that the
// disk did not have are then lost. All promised data must be there. The clients
// must write the rest again, and continue without an error.
func TestKill(t *testing.T) {
	disk := newDisk(t)
	d := serveDir(t, disk.dir, "--no-root-squash")
	s := d.guestSite()
	s.mountInGuest(t, "/mnt", s.mountOptions("rdma"))
	s.mountInGuest(t, "/mnt2", s.mountOptions("tcp"))
	m := mountServer{addr: d.rdma, guestSite: s}.mountFUSE(t)
	ledgers := []*runningLedger{
		guestLedger(t, d, "rdma", "/mnt/rdma"),
		guestLedger(t, d, "tcp", "/mnt2/tcp"),
		hostLedger(t, d, "fuse", filepath.Join(m.point, "fuse")),
	}
	rounds := killRounds
	if os.Getenv("INTEROP_SOAK") != "" {
		rounds = killSoak
	}
	var lost int64
	for round := range rounds {
		for _, l := range ledgers {
			l.awaitPromises()
		}
		time.Sleep(rand.N(killPace))
		d.proc.Kill()
		lost += disk.failAndRestart(func() {
			time.Sleep(settle)
			for _, l := range ledgers {
				l.checkPromises()
			}
		})
		t.Logf("round %d: %d bytes lost in all", round, lost)
		d.startProcess()
	}
	for _, l := range ledgers {
		l.awaitPromises()
		l.endAndCheck()
	}
	if rounds > killRounds { // with few rounds, the disk may always be up to date
		assert.Positive(t, lost, "the disk had got everything in each round")
	}
	m.unmountFUSE()
	unmountInGuest(t, "/mnt2")
	unmountInGuest(t, "/mnt")
	d.stopGracefully()
}

// A runningLedger is workload.Ledger on a mount.
type runningLedger struct {
	t    *testing.T
	dir  string // on the server
	stop func() error
	done chan error // its result

	mu       sync.Mutex
	promises map[string]contentPromise // by file
	count    int
	other    string // its other output
}

// A contentPromise is the guaranteed content of a file.
type contentPromise struct {
	generation int
	size       int64
}

func guestLedger(t *testing.T, d *daemon, name, dir string) *runningLedger {
	s, err := sharedGuest(t).Open(t.Context(), "mkdir "+dir+" && exec guestwork ledger "+dir)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return startLedger(t, d, name, s, s.CloseWrite, func() error {
		if s.Status() != 0 {
			return fmt.Errorf("exit status %d", s.Status())
		}
		return nil
	})
}

func hostLedger(t *testing.T, d *daemon, name, dir string) *runningLedger {
	require.NoError(t, os.Mkdir(dir, 0o755))
	in, out, p := hostProgram(t, exec.Command(programPath("guestwork"), "ledger", dir))
	return startLedger(t, d, name, out, in.Close, func() error {
		if s := p.ExitCode(); s != 0 {
			return fmt.Errorf("exit status %d", s)
		}
		return nil
	})
}

func startLedger(t *testing.T, d *daemon, name string, out io.Reader, stop, ended func() error) *runningLedger {
	l := &runningLedger{t: t, dir: filepath.Join(d.dir, name), stop: stop, done: make(chan error, 1), promises: make(map[string]contentPromise)}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			l.readLine(lines.Text())
		}
		l.done <- ended()
	}()
	return l
}

func (l *runningLedger) readLine(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var name string
	var p contentPromise
	if _, err := fmt.Sscanf(text, "%s %d %d", &name, &p.generation, &p.size); err != nil {
		l.other += text + "\n"
		return
	}
	l.promises[name] = p
	l.count++
}

// awaitPromises returns when the ledger has made several further promises for each
// file.
func (l *runningLedger) awaitPromises() {
	l.t.Helper()
	now := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.count
	}
	deadline := time.Now().Add(promiseLimit)
	for until := now() + 4*len(workload.LedgerFiles()); now() < until; time.Sleep(pollEvery) {
		select {
		case err := <-l.done:
			l.t.Fatalf("%s has ended: %v\n%s", l.dir, err, outputTail(l.otherOutput()))
		default:
		}
		require.True(l.t, time.Now().Before(deadline), "%s: no progress for %v", l.dir, promiseLimit)
	}
}

func (l *runningLedger) otherOutput() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.other
}

// checkPromises compares the files with the promises. The daemon must be down.
func (l *runningLedger) checkPromises() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, p := range l.promises {
		require.NoError(l.t, workload.LedgerHolds(l.dir, name, p.generation, p.size), l.dir)
	}
}

// endAndCheck ends the ledger, and checks all its files on the mount and on the server.
func (l *runningLedger) endAndCheck() {
	l.t.Helper()
	require.NoError(l.t, l.stop())
	select {
	case err := <-l.done:
		require.NoError(l.t, err, "%s: %s", l.dir, outputTail(l.otherOutput()))
	case <-time.After(promiseLimit):
		l.t.Fatalf("%s does not end", l.dir)
	}
	require.Empty(l.t, strings.TrimSpace(l.otherOutput()))
	l.checkPromises()
}
